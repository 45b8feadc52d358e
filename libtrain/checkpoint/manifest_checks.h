// Checks of a manifest beyond its seal: every size, offset, count and name is compared with what it indexes before
// anything uses it.
#pragma once

#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/version_1.h"
#include "libtrain/plan/schedule/stages.h"

#include <optional>
#include <string>

namespace trainyard::checkpoint {

// Checks everything but the boxes. InputError that begins with `where`, as for the functions below. Required are:
// - a model without problems, and an identity whose model and seed are those of the state;
// - the model's parameters by name and shape in order, and a fingerprint for each tensor;
// - a file for each rank, the joined index (version 2), and plain file names;
// - in version 2, a place of its own in the grid for each rank.
void require_consistent(const Manifest& manifest, const std::string& where);

// For version 1, after require_consistent: the parameters of each flat group lie inside its shards, in order and
// without overlap.
void require_shards(const std::vector<FlatGroupEntry>& flat_groups, const Manifest& manifest, const std::string& where);

// The boxes lie inside their tensors and inside every dataset of their rank, and together hold each element exactly
// once. Datasets of states of rows and columns have the sizes that follow from the boxes (kind_boxes.h).
void require_boxes(const Manifest& manifest, const std::string& where);

// Finds which items of the model each pipeline stage has, from where their boxes lie. Returns nothing where an item has
// boxes in several stages, or where the stages do not alternate as this build's do. Without an axis pipe, one stage has
// everything.
std::optional<plan::Stages> stages_of(const Manifest& manifest);

// The degree of expert parallelism along the data axis, from the record of the plan (`expert_parallel`). It is 1 where
// the record has none, or one that these ranks and this model cannot have.
int expert_parts_of(const Manifest& manifest);

// Returns whether the boxes lie where this build would put them. If not, another writer made them, or an offset is
// wrong, and only fingerprints can tell which.
bool layout_is_ours(const Manifest& manifest);

}  // namespace trainyard::checkpoint

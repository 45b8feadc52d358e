// What a manifest must be besides well sealed: every size, offset, count and name is held against what it indexes
// before anything uses it.
#pragma once

#include "libtrain/checkpoint/manifest.h"
#include "libtrain/plan/stages.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::checkpoint {

// Bounds under which sums of a manifest's numbers cannot overflow.
inline constexpr std::int64_t largest_count = std::int64_t{1} << 56;
inline constexpr std::int64_t largest_ranks = std::int64_t{1} << 24;

// The datasets and the metadata of a file cover each of its bytes once. InputError that begins with `where`.
void require_whole(const FileEntry& file, const std::string& where);

// All but the boxes: a model without problems, the identity's model and seed those of the state, its parameters by name
// and shape in order, a fingerprint for each tensor, a file for each rank (and one of their indices), plain file names,
// and of version 2 a place of its own in the grid for each rank. InputError that begins with `where`, as below.
void require_consistent(const Manifest& manifest, const std::string& where);

// Version 1, after that: each flat group's parameters lie inside of its shards, in order and apart.
void require_shards(const std::vector<FlatGroupEntry>& flat_groups, const Manifest& manifest, const std::string& where);

// The boxes lie inside of their tensors and of every dataset of their rank, and hold each element once.
void require_boxes(const Manifest& manifest, const std::string& where);

// Which items of the model the ranks along an axis pipe have, by where their boxes lie: nothing where an item has boxes
// in several stages, or where the stages do not take turns as ours do. Without that axis one stage has all.
std::optional<plan::Stages> stages_of(const Manifest& manifest);

// How many ranks along data share out the experts of a layer, as the record of the plan says (`expert_parallel`): 1
// where it says nothing, or what these ranks and this model cannot be.
int expert_parts_of(const Manifest& manifest);

// Do the boxes lie where this build would put them? If not, somebody else wrote them, or a place is wrong: only
// fingerprints can tell.
bool layout_is_ours(const Manifest& manifest);

// The checksum of the whole file that follows from those of its parts.
std::uint32_t crc_of_parts(const FileEntry& file);

}  // namespace trainyard::checkpoint

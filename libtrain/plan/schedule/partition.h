// Partition: where a model is split into parts along its depth (--partition).
#pragma once

#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/schedule/boundaries.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// What is to be split: the model's items. A large vocabulary makes the first and the last item heavy.
struct PartitionOf {
  const ModelConfig& model;
  Lengths lengths = 1;
  Recomputation recompute = {};  // of every layer alike: the layers of a stage are not known yet
};

// `how` is one of
//   uniform        as many items in each part; the first parts have one more if the number is not even
//   parameters     the heaviest part has as few parameters as possible; a tied table counts in both its places
//   flops          the same with FLOPs: forward, backward, and recomputation. A share of the layers that are
//                  recomputed counts as that share of each layer
//   type:PATTERN   the same with the number of items whose name (item_names) matches the regular expression;
//                  at least as many items must match as there are parts
//   0,3,6,...      the first item of each part
// Parts have at least one item each. UsageError: an unknown word (with the nearest), a pattern that is no regular
// expression or matches too few items, more parts than items, or a wrong list. A list must begin at 0, ascend, end
// inside the model, and have as many numbers as there are parts.
Boundaries partition(const std::string& how, const PartitionOf& of, int parts);

// The number of parts of a list; 0: `how` is no list.
int listed_parts(const std::string& how);

// The weights of items for "parameters", "flops" or "type:PATTERN".
std::vector<double> item_weights(const std::string& how, const PartitionOf& of);

}  // namespace trainyard::plan

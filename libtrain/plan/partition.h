// Partition: where a model is cut into parts along its depth, as --partition says.
#pragma once

#include "libtrain/plan/boundaries.h"
#include "libtrain/plan/inventory.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// What is to be cut: blocks by item, of which a huge vocabulary makes the first and the last heavy.
struct PartitionOf {
  const ModelConfig& model;
  std::int64_t sequence = 1;  // tokens
  Recompute recompute = Recompute::none;
};

// `how` is one of
//   uniform        as many items in each part, the first ones one more where that does not come out even
//   parameters     the heaviest part has the fewest parameters that it can; a tied table counts in both its places
//   flops          the same of what is computed: forward, backward, and what is recomputed
//   type:PATTERN   the same of items whose name (item_names) the regular expression finds; the others count nothing,
//                  and it finds as many as there are parts
//   0,3,6,...      the first item of each part
// Parts have at least one item each. UsageError: an unknown word (with the nearest), a pattern
// that is none or finds too few, more parts than items, a list that does not begin at 0, does not ascend, ends beyond
// the model, or has another number of parts.
Boundaries partition(const std::string& how, const PartitionOf& of, int parts);

// For how many parts a list is; 0: `how` is none.
int listed_parts(const std::string& how);

// What items weigh under "parameters", "flops" or "type:PATTERN".
std::vector<double> item_weights(const std::string& how, const PartitionOf& of);

}  // namespace trainyard::plan

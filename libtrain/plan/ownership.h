// Ownership: what a rank counts of a flat group's gradients, and saves of its states, where the whole world does so
// with every logical parameter once.
#pragma once

#include "libtrain/plan/topology.h"
#include "libtrain/plan/flat_group.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Elements [begin, end) of a rank's shard of a flat group.
struct ShardRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const ShardRange&) const = default;
};

// What the rank is the first holder of (plan/held.h). Ranges ascend; a shard that is counted whole is one range, with
// the gaps and the padding, where everything is zero.
std::vector<ShardRange> counted_ranges(const FlatGroup& flat_group, const FlatLayout& layout, const Topology& topology,
                                       int rank);
// Of these what the gradient norm is of: what changes by AdamW (Update).
std::vector<ShardRange> normed_ranges(const FlatGroup& flat_group, const FlatLayout& layout, const Topology& topology,
                                      int rank);

}  // namespace trainyard::plan

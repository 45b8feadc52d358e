// Ownership: which of a flat group's gradients a rank counts, and which of its states it saves, so that all ranks
// together count and save every logical parameter once.
#pragma once

#include "libtrain/plan/blocks/flat_group.h"
#include "libtrain/plan/grid/topology.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Elements [begin, end) of a rank's shard of a flat group.
struct ShardRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const ShardRange&) const = default;
};

// The ranges of which the rank is the first holder (plan/blocks/held.h), ascending. A shard that is counted whole is
// one range, which includes gaps and padding; everything there is zero.
std::vector<ShardRange> counted_ranges(const FlatGroup& flat_group, const FlatLayout& layout, const Topology& topology,
                                       int rank);
// The part of these that enters the gradient norm: parameters that the optimizer updates (Update).
std::vector<ShardRange> normed_ranges(const FlatGroup& flat_group, const FlatLayout& layout, const Topology& topology,
                                      int rank);

}  // namespace trainyard::plan

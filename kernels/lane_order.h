// The order in which the results of lanes are put together: neighbours first, in a binary tree; a left fold where the
// number of lanes is no power of two. What a rank with neighbouring lanes found is so a whole subtree.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>

namespace trainyard::kernels {
namespace {  // each compiled variant has its own

constexpr int lane_levels = 17;
constexpr std::int64_t most_lanes = std::int64_t{1} << (lane_levels - 1);

// Results come in ascending order: result i of n is joined with what waits at the places 0, 1, ... `joins` - 1, which
// stands to its left each time, and then waits at `place`. The last one so becomes the whole.
struct LaneStep {
  int joins, place;
};
TRAINYARD_ANYWHERE constexpr LaneStep lane_step(std::int64_t i, std::int64_t n) {
  if ((n & (n - 1)) != 0) return {i > 0 ? 1 : 0, 0};
  int ones = 0;
  while (((i >> ones) & 1) != 0) ++ones;
  return {ones, ones};
}

}  // namespace
}  // namespace trainyard::kernels

// The order in which results of reduction lanes are joined: a binary tree of neighbours, or left to right where the
// number of lanes is no power of two. In the tree, the neighbouring lanes of a rank are a whole subtree.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>

namespace trainyard::kernels {
namespace {  // each compiled variant has its own copy

constexpr int lane_levels = 17;
constexpr std::int64_t most_lanes = std::int64_t{1} << (lane_levels - 1);

// Results come in ascending order. Result i of n is joined with the results that wait at places 0, 1, ... `joins` - 1,
// each of which is its left operand. Then it waits at `place`. The last result becomes the sum of all.
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

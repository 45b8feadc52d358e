// The order of the fold (decision 1): which rank computes a micro-batch of a step, when, and where it keeps its numbers. The one
// arithmetic of planner, engine and kernels.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>

namespace trainyard::base {

// A rank has a place for each micro-batch of each of its turns, `fold` in a turn, also where the last are not there.
struct FoldPlace {
  std::int64_t group, turn, rank, place;
};

// Micro-batch m of a step lies in group m / fold; rank r computes group turn * ranks + r in its turn `turn`.
TRAINYARD_ANYWHERE constexpr FoldPlace fold_place(std::int64_t m, std::int64_t fold, std::int64_t ranks) {
  const std::int64_t group = m / fold, turn = group / ranks;
  return {group, turn, group % ranks, turn * fold + m % fold};
}

// How a fold goes on: first overwrites the sum with the left fold of this turn's contributions, next goes on from the sum.
enum class FoldTurn { first, next };

}  // namespace trainyard::base

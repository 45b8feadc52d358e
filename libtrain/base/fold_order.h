// The order of the fold (decision 1): which rank computes a micro-batch of a step, when, and where it keeps its
// numbers. The one arithmetic of planner, engine and kernels.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>

namespace trainyard::base {

// A rank has a place for each micro-batch of each of its rounds, `fold` in a round, also where the last are not there.
struct FoldPlace {
  std::int64_t fold_group, round, rank, place;
};

// Micro-batch m of a step lies in fold group m / fold; rank r computes fold group round * ranks + r in its round
// `round`.
TRAINYARD_ANYWHERE constexpr FoldPlace fold_place(std::int64_t m, std::int64_t fold, std::int64_t ranks) {
  const std::int64_t group = m / fold, round = group / ranks;
  return {group, round, group % ranks, round * fold + m % fold};
}

// How a fold goes on: first overwrites the sum with the left fold of this round's contributions, next goes on from the
// sum.
enum class FoldRound { first, next };

}  // namespace trainyard::base

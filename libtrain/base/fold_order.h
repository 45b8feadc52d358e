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

// Micro-batch m of a step lies in fold group m / fold; rank r, that is the one whose turn is r, computes fold group
// round * ranks + r in its round `round`.
TRAINYARD_ANYWHERE constexpr FoldPlace fold_place(std::int64_t m, std::int64_t fold, std::int64_t ranks) {
  const std::int64_t group = m / fold, round = group / ranks;
  return {group, round, group % ranks, round * fold + m % fold};
}

// Which of `ranks` neighbours along data has a turn, that is which of them is rank r above. They have turns as they
// stand, but where `experts` neighbours hold different experts: then those that hold the same ones, that many apart,
// have turns that follow one another, as what they make for one rank with other experts is added up before what they
// make for the next (params/gradients.h).
TRAINYARD_ANYWHERE constexpr std::int64_t place_of_turn(std::int64_t turn, std::int64_t ranks, std::int64_t experts) {
  const std::int64_t alike = ranks / experts;
  return turn % alike * experts + turn / alike;
}
// The turn of the one at a place.
TRAINYARD_ANYWHERE constexpr std::int64_t turn_of_place(std::int64_t place, std::int64_t ranks, std::int64_t experts) {
  return place_of_turn(place, ranks, ranks / experts);
}

// How a fold goes on: first overwrites the sum with the left fold of this round's contributions, next goes on from the
// sum.
enum class FoldRound { first, next };

}  // namespace trainyard::base

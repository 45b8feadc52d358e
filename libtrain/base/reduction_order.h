// The order of the ordered reduction (decision 1): which rank computes a micro-batch of a step, in which round, and
// where it keeps its numbers. Planner, engine and kernels all use this one arithmetic.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>

namespace trainyard::base {

// A rank has a place for each micro-batch of each of its rounds: `local_accumulation` places a round, also in an uneven
// last round.
struct MicroBatchPlace {
  std::int64_t accumulation_group, round, rank, place;
};

// Micro-batch m of a step belongs to accumulation group m / local_accumulation. The rank whose turn is r computes
// accumulation group round * ranks + r in its round `round`.
TRAINYARD_ANYWHERE constexpr MicroBatchPlace place_of_micro_batch(std::int64_t m, std::int64_t local_accumulation,
                                                                  std::int64_t ranks) {
  const std::int64_t group = m / local_accumulation, round = group / ranks;
  return {group, round, group % ranks, round * local_accumulation + m % local_accumulation};
}

// The reduction adds the contributions of `ranks` data-parallel ranks in turns; this is the place, among them, of the
// rank whose turn is `turn`. Without expert parallelism turn and place are equal. Where `experts` neighbours hold
// different experts, ranks that hold the same ones, which are that far apart, have consecutive turns: what they compute
// for one rank with other experts is added before what they compute for the next (params/gradients.h).
TRAINYARD_ANYWHERE constexpr std::int64_t place_of_turn(std::int64_t turn, std::int64_t ranks, std::int64_t experts) {
  const std::int64_t alike = ranks / experts;
  return turn % alike * experts + turn / alike;
}
// The turn of the rank at a place.
TRAINYARD_ANYWHERE constexpr std::int64_t turn_of_place(std::int64_t place, std::int64_t ranks, std::int64_t experts) {
  return place_of_turn(place, ranks, ranks / experts);
}

// first: the sum is overwritten with the left-to-right sum of this round's contributions. next: they are added to it.
enum class ReductionRound { first, next };

}  // namespace trainyard::base

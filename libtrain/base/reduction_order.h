// The order of the ordered reduction (decision 1): which rank computes a micro-batch, in which accumulation step, and
// where the rank stores the results. Planner, engine and kernels all use these functions.
#pragma once

#include "libtrain/base/anywhere.h"

#include <cstdint>

namespace trainyard::base {

// Where a micro-batch of an optimizer step is computed. `round`: in which accumulation step, counted from 0. `rank`:
// the position in the reduction order of the rank that computes it. `place`: the index of the micro-batch among those
// of its rank. The index counts `local_accumulation` micro-batches for each accumulation step, also for an uneven last
// one, where some of them are empty.
struct MicroBatchPlace {
  std::int64_t accumulation_group, round, rank, place;
};

// Micro-batch m belongs to accumulation group m / local_accumulation. In accumulation step `round`, the rank at
// position r of the reduction order computes accumulation group round * ranks + r.
TRAINYARD_ANYWHERE constexpr MicroBatchPlace place_of_micro_batch(std::int64_t m, std::int64_t local_accumulation,
                                                                  std::int64_t ranks) {
  const std::int64_t group = m / local_accumulation, round = group / ranks;
  return {group, round, group % ranks, round * local_accumulation + m % local_accumulation};
}

// The data-parallel coordinate of the rank at `reduction_position` of the reduction order, among `ranks` ranks. Here
// "place" means that coordinate. Without expert parallelism coordinate and position are equal. With it, `experts`
// neighbouring ranks hold different experts, and ranks that are `experts` apart hold the same ones. Ranks with the same
// experts have consecutive positions. So the gradients that such ranks compute for the tokens of one source rank are
// added before the gradients for the next source (params/gradients.h).
TRAINYARD_ANYWHERE constexpr std::int64_t place_at_reduction_position(std::int64_t reduction_position,
                                                                      std::int64_t ranks, std::int64_t experts) {
  const std::int64_t alike = ranks / experts;
  return reduction_position % alike * experts + reduction_position / alike;
}
// The inverse: the reduction-order position of the rank at data-parallel coordinate `place`.
TRAINYARD_ANYWHERE constexpr std::int64_t reduction_position_of_place(std::int64_t place, std::int64_t ranks,
                                                                      std::int64_t experts) {
  return place_at_reduction_position(place, ranks, ranks / experts);
}

// Where the numbers of the rank at each position of the reduction order are, among numbers that were gathered from a
// row of ranks: from rank `first` on, one of `ranks` data-parallel coordinates every `apart` ranks (plan::Topology
// makes it).
struct RowsOfPositions {
  std::int64_t ranks = 1, experts = 1, apart = 1, first = 0;
  TRAINYARD_ANYWHERE constexpr std::int64_t row(std::int64_t reduction_position) const {
    return first + place_at_reduction_position(reduction_position, ranks, experts) * apart;
  }
};

// first: the left-to-right sum of this accumulation step's contributions overwrites the sum. next: they are added to
// it.
enum class ReductionRound { first, next };

}  // namespace trainyard::base

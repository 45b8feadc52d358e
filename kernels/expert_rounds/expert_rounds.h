// Rounds in which the rows of experts cross to other ranks over a buffer of a fixed size: which group goes when, and
// which row of the buffer is whose.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// The groups of a gate, i32 [E, 2], first row and how many, each at most `room` rows: those of one destination are
// E / destinations neighbours. places i32 [E, 2] gets the round of each group and its first row among those that go to
// its destination then: groups are never split; in their order, as many go together as `room` rows hold. rounds i32
// [1], or empty: of the destination that has most, at least 1.
void expert_rounds(tensor::Exec& exec, base::View groups, std::int64_t destinations, std::int64_t room,
                   base::View places, base::View rounds);

// One of them, as the rank number `from` of the destinations sends it.
struct ExpertRound {
  std::int64_t destinations = 1, room = 0, from = 0, round = 0;
};
// Filled by expert_round. R rows that a gate gave out at most, destinations * room rows of a buffer.
struct RoundRows {
  base::View sent;    // i32 [E, 2]: first row, from * room + that of places, and how many; 0, -1 of another round's
  base::View tokens;  // i32 [destinations * room]: of a row of the buffer the entry of `sources`, -1 of nobody's
  base::View here;    // the same: the row that the gate gave out
  base::View back;    // i32 [R]: the other way round; -1: not in this round
};
// sources i32 [R] as a gate fills it (kernels/gate).
void expert_round(tensor::Exec& exec, const ExpertRound& of, base::View groups, base::View places, base::View sources,
                  const RoundRows& rows);

}  // namespace trainyard::kernels

// Dispatch rounds: experts' rows are sent to other ranks through a buffer of fixed size. Computes which group goes in
// which round, and which row of the buffer belongs to which token.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// groups are a gate's, i32 [E, 2]: first row and number of rows, at most `room` rows each. The groups of one
// destination are E / destinations neighbours. places, i32 [E, 2], gets each group's round and its first row among the
// rows sent to its destination in that round. Groups are never split. They stay in order, and a round takes as many as
// `room` rows hold. rounds is i32 [1], or empty: it gets the number of rounds of the destination that needs most, at
// least 1.
void expert_rounds(tensor::Exec& exec, base::ConstView groups, std::int64_t destinations, std::int64_t room,
                   base::View places, base::View rounds);

// One dispatch round, as the rank with number `from` among the destinations sends it.
struct ExpertRound {
  std::int64_t destinations = 1, room = 0, from = 0, round = 0;
};
// Filled by expert_round. R is the most rows that the gate assigns; the buffer has destinations * room rows.
struct RoundRows {
  base::View sent;    // i32 [E, 2]: from * room + first row, and number of rows; (0, -1) for groups of other rounds
  base::View tokens;  // i32 [destinations * room]: each row's entry of `sources`; -1 for an unused row
  base::View here;    // the same shape: the row that the gate assigned, or -1
  base::View back;    // i32 [R]: the inverse of `here`: the row of the buffer, or -1 if it is not sent in this round
};
// `sources` is i32 [R] as a gate fills it (kernels/gate).
void expert_round(tensor::Exec& exec, const ExpertRound& of, base::ConstView groups, base::ConstView places,
                  base::ConstView sources, const RoundRows& rows);

}  // namespace trainyard::kernels

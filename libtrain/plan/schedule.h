// Schedule: what one rank does in a step, as a list of actions. Without pipeline stages it is a one-stage program.
#pragma once

#include "libtrain/plan/batch.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// load, forward, backward name a micro-batch; reduce and idle name a turn; update ends the step. An idle turn is the ragged last one on a
// rank without a group: it takes part in the collectives and contributes nothing. Fields that do not apply are -1.
struct Action {
  enum class Kind { load, forward, backward, reduce, idle, update } kind;
  std::int64_t turn = -1, group = -1, micro = -1;
  bool operator==(const Action&) const = default;
};
const char* name_of(Action::Kind kind);

// Backward ascends in the micro-batch index. Reduction of a turn overlaps with the backward before it: the action is where it must be over.
std::vector<Action> one_stage(const BatchPlan& batch, int data_rank);

}  // namespace trainyard::plan

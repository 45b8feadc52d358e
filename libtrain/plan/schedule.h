// Schedule: what one rank does in a step, as a list of actions. Without pipeline stages it is a one-stage program.
#pragma once

#include "libtrain/plan/plan.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// The engine interprets the list; every rank's list has the same `ask` and `agree` actions in the same order.
//  ask       stop requests of all ranks are joined for the round named: before the backward that ends the round before
//            it, so that the answer does not queue behind that round's reductions; for the first round at its beginning
//  agree     before a round: the answer is there; if there was a request the step ends here and no weight has changed
//  load      micro-batch `micro` of `fold_group` is at hand
//  forward, backward   of that micro-batch; the last backward of a fold group also issues the round's reductions, which
//                      overlap with what follows
//  idle      the ragged last round on a rank without a fold group: it takes part in the collectives and contributes
//  nothing reduce    the reductions of all rounds are over, later uses of tied tables are added update    losses and
//  norm are agreed, weights change
// Fields that do not apply are -1. Backward ascends in the micro-batch index.
struct Action {
  enum class Kind { ask, agree, load, forward, backward, idle, reduce, update } kind;
  std::int64_t round = -1, fold_group = -1, micro = -1;
  bool operator==(const Action&) const = default;
};
const char* name_of(Action::Kind kind);

std::vector<Action> one_stage(const BatchPlan& batch, int data_rank);
// Of the plan's schedule, for a rank of its world.
std::vector<Action> actions(const Plan& plan, int rank);

}  // namespace trainyard::plan

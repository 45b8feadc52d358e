// Schedule: what one rank does in a step, as a list of actions. Without pipeline stages it is a one-stage program.
#pragma once

#include "libtrain/plan/pipeline.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// The engine interprets the list. The lists of ranks with the same stage have the same actions in the same order: where
// a rank has no micro-batch (the ragged last round) the action is idle, `micro` is -1, and it takes part in what
// all do and contributes nothing; it has a slot like any other, for experts that work for the tokens of others. So
// every rank issues the same collectives in the same order.
//  ask       stop requests of all ranks are joined for the round named: before the backward that ends the round before
//            it, so that the answer does not queue behind that round's reductions; for the first round at its
//            beginning. With several stages once, at the beginning of a step: a later agreement would empty the
//            pipeline
//  agree     before a round: the answer is there; if there was a request the step ends here and no weight has changed
//  load      micro-batch `micro` is at hand in `slot` of `chunk`, and what the stage before computed of it was taken
//            from where it arrived, so that the next may arrive
//  receive_activations, receive_gradients   from now on what the stage before, or behind, made of that micro-batch may
//            arrive: activations in a place of their own, gradients in its slot
//  forward, backward   of a chunk; the last backward of a fold group also issues the round's reductions, which overlap
//            with what follows, and gives the slot back
//  input_gradients, weight_gradients   the two halves of a backward, in its place
//  send_activations, send_gradients   to the stage behind, or before: from the slot, or from a copy
//  reduce    the reductions of all rounds are over, later occurrences of tied tables are added
//  update    losses and norm are agreed, weights change
// Fields that do not apply are -1. Backward ascends in the micro-batch index.
struct Action {
  enum class Kind {
    ask,
    agree,
    load,
    receive_activations,
    forward,
    send_activations,
    receive_gradients,
    backward,
    input_gradients,
    weight_gradients,
    send_gradients,
    reduce,
    update
  } kind;
  std::int64_t round = -1;
  std::int64_t place =
      -1;  // of the micro-batch among those of the rank, those that are not there counted (plan/batch.h)
  std::int64_t micro = -1;  // in the step
  int chunk = -1, slot = -1;
  bool operator==(const Action&) const = default;
};
const char* name_of(Action::Kind kind);

// How a model is cut along its depth.
struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int stages = 1, chunks = 1;
  bool operator==(const Pipeline&) const = default;
};

// Of one stage. Where it is the only one and works on one micro-batch after the other, it agrees before every round.
std::vector<Action> step_actions(const BatchPlan& batch, int data_rank, const Pipeline& pipeline, int stage);
// Of the plan's schedule, for a rank of its world.
std::vector<Action> actions(const Plan& plan, int rank);

// Of `rounds` rounds of an evaluation, in each of which every data rank has a micro-batch, `place`: forward passes
// alone, in the order in which a step has them; each chunk has one slot. `micro` is the place; there is no agreement.
std::vector<Action> evaluation_actions(std::int64_t rounds, const Pipeline& pipeline, int stage);

// Micro-batches of each chunk that are between forward and the end of backward at one time: a slot for each.
std::vector<int> slots_of(const std::vector<Action>& actions, int chunks);

}  // namespace trainyard::plan

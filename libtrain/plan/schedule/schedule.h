// Schedule: what one rank does in a step, as a list of actions. Without pipeline stages it is a program of one stage.
#pragma once

#include "libtrain/plan/grid/batch.h"
#include "libtrain/plan/schedule/pipeline.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// The engine interprets the list. The lists of ranks of one stage have the same actions in the same order. So every
// rank issues the same collectives in the same order. In these lists a round is an accumulation step, a chunk is a
// virtual stage, and a slot is the memory for one micro-batch that a chunk has in flight. In an uneven last round a
// rank may have an empty micro-batch. Then the action is idle, with `micro` -1: the rank takes part in all collectives
// and contributes nothing. An empty micro-batch has a slot like any other, for experts that work for the tokens of
// other ranks.
//  ask       starts joining the stop requests of all ranks for the named round. This is before the backward that ends
//            the round before it, so that the answer does not queue behind that round's reductions. For the first
//            round it is at its beginning. With several stages, and breadth first, it is once, at the beginning of a
//            step: a later agreement would empty the pipeline
//  agree     before a round: the answer is there. A stop request ends the step here, and no weight has changed
//  load      micro-batch `micro` is at hand in `slot` of `chunk`. Its activations from the previous stage have been
//            taken from where they arrived, so the next ones may arrive
//  receive_activations, receive_gradients   from now on the previous or next stage's message for that micro-batch may
//            arrive: activations in a buffer of their own, gradients in its slot
//  forward, backward   one pass of a chunk. The last backward of an accumulation group also issues the round's
//            reductions, which overlap with what follows. A backward, or its second half, frees the slot. Breadth
//            first it is one pass of a `block` of the chunk, and the first block's backward frees the slot
//  input_gradients, weight_gradients   the two halves of a backward, in its place
//  send_activations, send_gradients   to the next stage from the slot, or to the previous stage from a copy
//  reduce    the reductions of all rounds are over, and later occurrences of tied tables are added
//  update    the ranks agree on losses and norm, and weights change
// Fields that do not apply are -1. Backward passes ascend in the micro-batch index, breadth first in every block.
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
  std::int64_t round = -1;  // accumulation step, counted from 0 in each step
  // Index of the micro-batch among the rank's own of a step. Empty micro-batches count, too (base::MicroBatchPlace).
  std::int64_t place = -1;
  std::int64_t micro = -1;  // index in the step
  int chunk = -1, slot = -1;
  std::int64_t block = -1;  // of a pass, index in the chunk; -1: the pass is through all blocks
  bool operator==(const Action&) const = default;
};
const char* name_of(Action::Kind kind);

// How a model is divided along its depth.
struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int stages = 1, chunks = 1;
  std::int64_t blocks = 0;  // breadth first: the blocks of this stage, which has one chunk; 0: depth first
  bool operator==(const Pipeline&) const = default;
};

// The actions of one stage. A single stage that works on one micro-batch after the other agrees before every round.
// Breadth first has the slots, loads and messages of gpipe, whatever the schedule.
std::vector<Action> step_actions(const BatchPlan& batch, int data_rank, const Pipeline& pipeline, int stage);

// The actions of an evaluation in which every data-parallel rank computes `rounds` micro-batches. They are forward
// passes, in the order of a step, and each chunk has one slot. `micro` and `place` are both the index of the
// micro-batch among the rank's own. There is no agreement.
std::vector<Action> evaluation_actions(std::int64_t rounds, const Pipeline& pipeline, int stage);

// For each chunk, the number of slots: the micro-batches between forward and the end of backward at one time.
std::vector<int> slots_of(const std::vector<Action>& actions, int chunks);

}  // namespace trainyard::plan

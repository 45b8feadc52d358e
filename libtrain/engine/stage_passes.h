// StagePasses: how micro-batches enter the chunks of a stage, and forward passes alone: what training's validations and
// evaluations share.
#pragma once

#include "libtrain/engine/current_action.h"
#include "libtrain/engine/loss_reduction.h"
#include "libtrain/engine/stage_link.h"
#include "libtrain/model/attention_lists.h"
#include "libtrain/model/decoder.h"
#include "libtrain/model/tensor_collectives.h"
#include "libtrain/model/expert_collectives.h"
#include "libtrain/model/saved.h"
#include "libtrain/plan/accesses.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/schedule.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trainyard::engine {

// What belongs to one micro-batch between its load and the end of its last pass.
struct Slot {
  // passing: the place of all slots for what a block does not keep; null: it is in its own.
  Slot(tensor::Arena& activations, std::int64_t bytes, tensor::Arena* passing = nullptr)
      : memory(activations, bytes), saved(memory, passing) {}
  tensor::Arena memory;
  model::Saved saved;
  std::optional<model::Step> step;
  model::Flow flow;
  tensor::Event sent;     // the stage behind has the output: the stream may be written again
  tensor::Event arrived;  // its gradient is in the stream
};

// Neighbouring layers that a micro-batch passes through at one time.
struct Chunk {
  std::unique_ptr<model::Decoder> decoder;
  std::vector<std::unique_ptr<Slot>> slots;
  std::vector<plan::Access> forward, backward, input_gradients, weight_gradients;  // of a micro-batch
  std::vector<plan::Occurrence> evaluation;
  bool first = true;  // of the model: no stage stands before it
};

// What forward passes need of who makes them, by the places in a list and of its micro-batches.
struct ForwardPasses {
  std::function<const model::MicroBatch&(std::int64_t micro)> batch;
  std::function<void(std::span<const plan::Occurrence> leases)> begin_pass;  // of a chunk
  std::function<void(std::size_t place)> passed = [](std::size_t) {};        // all chunks of the stage
};

// Refers to what a trainer or an evaluator has, and lives no longer. Called by the compute thread.
struct StagePasses {
  const plan::Plan& plan;
  int stage;
  std::uint64_t seed;
  params::StoreContext& context;
  params::ParameterStore& store;
  const model::TensorCollectives& collectives;
  const model::ExpertCollectives& experts;
  const model::AttentionLists& lists;
  std::vector<Chunk>& chunks;
  StageLink* link;  // null: there is one stage
  CurrentAction& now;

  Slot& slot_of(const plan::Action& action) const {
    return *chunks[static_cast<std::size_t>(action.chunk)].slots[static_cast<std::size_t>(action.slot)];
  }
  // The micro-batch begins its way through the chunk, with what the stage before made of it.
  Slot& enter(const plan::Action& action, const model::MicroBatch& batch, plan::Pass pass) const;
  // The place of a micro-batch that there is not, on its way: experts work for those who share them (Step::absent).
  // `shape` outlives it.
  Slot& enter_absent(const plan::Action& action, const model::MicroBatch& shape) const;
  // The list of plan::evaluation_actions, one slot for each chunk: adds to losses[i] what this stage finds of
  // micros[i], which is nothing but in the last. Where layers are cut over stages or ranks, collective.
  void evaluate(std::span<const std::int64_t> micros, std::span<MicroLoss> losses, const ForwardPasses& of) const;

 private:
  Slot& open(const plan::Action& action, const model::MicroBatch& batch, plan::Pass pass) const;
};

}  // namespace trainyard::engine

// StagePasses: how micro-batches enter the virtual stages (chunks) of a pipeline stage, and forward passes alone.
// Training's validations and evaluations share it.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/engine/current_action.h"
#include "libtrain/engine/loss_reduction.h"
#include "libtrain/engine/stage_link.h"
#include "libtrain/model/attention_lists.h"
#include "libtrain/model/decoder.h"
#include "libtrain/model/expert_collectives.h"
#include "libtrain/model/saved.h"
#include "libtrain/model/tensor_collectives.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/schedule/accesses.h"
#include "libtrain/plan/schedule/schedule.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trainyard::engine {

// What belongs to one micro-batch of a virtual stage, between its load and the end of its last pass.
struct Slot {
  // passing: memory that all slots share, for tensors that a block does not keep. null: these tensors are in the slot's
  // own memory.
  Slot(tensor::Arena& activations, std::int64_t bytes, tensor::Arena* passing = nullptr)
      : memory(activations, bytes), saved(memory, passing) {}
  tensor::Arena memory;
  model::Saved saved;
  std::optional<model::Step> step;
  model::Flow flow;
  tensor::Event sent;     // the next stage has the output: the hidden states may be written again
  tensor::Event arrived;  // the gradient has arrived in the memory of the hidden states
};

// A virtual stage: neighbouring layers that a micro-batch passes through at one time.
struct Chunk {
  std::unique_ptr<model::Decoder> decoder;
  std::vector<std::unique_ptr<Slot>> slots;
  std::vector<plan::Access> forward, backward, input_gradients, weight_gradients;  // accesses of one micro-batch
  std::vector<plan::AccessesOfBlock> blocks;  // the same for each block, if micro-batches pass blocks breadth first
  std::vector<plan::Occurrence> evaluation;
  bool first = true;  // it begins the model: no stage comes before it

  const std::vector<plan::Access>& accesses(const plan::Action& pass) const;
};

// What the caller of forward passes provides. A place is an index into the list of micro-batches.
struct ForwardPasses {
  std::function<const model::MicroBatch&(std::int64_t micro)> batch;
  std::function<void(std::span<const plan::Occurrence> leases)> begin_pass;  // before each pass of a virtual stage
  // After the last pass of a micro-batch on this rank.
  std::function<void(std::size_t place)> passed = [](std::size_t) {};
  // Step::gate_records of a micro-batch.
  std::function<base::View(std::int64_t micro)> gate_records = [](std::int64_t) { return base::View(); };
};

// Refers to members of a trainer or an evaluator, and must not outlive them. The compute thread makes all calls.
struct StagePasses {
  const plan::Plan& plan;
  int stage;
  std::uint64_t seed;
  params::RankExecs& execs;
  params::ParameterStore& store;
  const model::TensorCollectives& collectives;
  const model::ExpertCollectives& experts;
  const model::AttentionLists& lists;
  std::vector<Chunk>& chunks;
  StageLink* link;                 // null: there is one stage
  model::OffloadedInputs* inputs;  // null: layers have their inputs in memory
  CurrentAction& now;

  Slot& slot_of(const plan::Action& action) const {
    return *base::at(base::at(chunks, action.chunk).slots, action.slot);
  }
  // Opens the slot of a micro-batch that enters a virtual stage, and takes its activations from the stage before. An
  // empty micro-batch has none.
  Slot& enter(const plan::Action& action, const model::MicroBatch& batch, plan::Pass pass) const;
  // Executes the list of plan::evaluation_actions, with one slot for each virtual stage. Adds to losses[i] what this
  // stage finds for micros[i]: nothing, except on the last stage. Collective if layers are divided among stages or
  // ranks.
  void evaluate(std::span<const std::int64_t> micros, std::span<MicroLoss> losses, const ForwardPasses& of) const;
};

}  // namespace trainyard::engine

// How a micro-batch enters a virtual stage (chunk), and the loop over the actions of an evaluation.
#include "libtrain/engine/stage_passes.h"

#include "libtrain/base/index.h"

#include <utility>

namespace trainyard::engine {

const std::vector<plan::Access>& Chunk::accesses(const plan::Action& pass) const {
  using Kind = plan::Action::Kind;
  if (pass.block >= 0) {
    const auto& block = base::at(blocks, pass.block);
    return pass.kind == Kind::forward ? block.forward : block.backward;
  }
  return pass.kind == Kind::forward           ? forward
         : pass.kind == Kind::backward        ? backward
         : pass.kind == Kind::input_gradients ? input_gradients
                                              : weight_gradients;
}

Slot& StagePasses::enter(const plan::Action& action, const model::MicroBatch& batch, plan::Pass pass) const {
  auto& slot = slot_of(action);
  slot.step.emplace(model::Step{execs.compute, &store, batch, plan.dtype, seed, pass});
  slot.step->collectives = &collectives;
  slot.step->experts = &experts;
  slot.step->lists = &lists;
  slot.step->inputs = inputs, slot.step->chunk = action.chunk, slot.step->slot = action.slot;
  slot.step->weight_gradients = plan.micro().weight_gradients;
  slot.flow = base::at(chunks, action.chunk).decoder->open(*slot.step, slot.saved);
  if (!batch.empty() && !base::at(chunks, action.chunk).first) link->take_activations(action.chunk, slot.flow);
  return slot;
}

void StagePasses::evaluate(std::span<const std::int64_t> micros, std::span<MicroLoss> losses,
                           const ForwardPasses& of) const {
  using Kind = plan::Action::Kind;
  const plan::Pipeline pipeline{plan.pipeline_schedule, plan.pipeline, plan.virtual_stages};
  const CurrentAction::UntilEnd over(now);
  for (const auto& action : plan::evaluation_actions(static_cast<std::int64_t>(micros.size()), pipeline, stage)) {
    const auto& chunk = base::at(chunks, action.chunk);
    auto& slot = slot_of(action);
    const auto at = base::size(action.place);
    now.begin(action, micros[at]);
    if (action.kind == Kind::load) {
      execs.join(std::exchange(slot.sent, {}));
      enter(action, of.batch(micros[at]), plan::Pass::evaluate).step->gate_records = of.gate_records(micros[at]);
    } else if (action.kind == Kind::forward) {
      of.begin_pass(chunk.evaluation);
      chunk.decoder->evaluate(*slot.step, slot.flow, slot.saved);
      losses[at].sum += slot.step->loss_sum;
      losses[at].targets += static_cast<double>(slot.step->target_count);
      slot.step.reset();
      if (&chunk == &chunks.back()) of.passed(at);
    } else if (action.kind == Kind::receive_activations) {
      link->await_activations(action.chunk);
    } else {
      slot.sent = link->send_activations(action.chunk, slot.flow);
    }
  }
  for (auto& chunk : chunks) execs.join(std::exchange(chunk.slots.front()->sent, {}));
}

}  // namespace trainyard::engine

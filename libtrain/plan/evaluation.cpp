// Adds up the bytes of weights, activations and workspace.
#include "libtrain/plan/evaluation.h"

#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/schedule/stage_messages.h"

namespace trainyard::plan {

MemoryBytes evaluation_memory(const Plan& p, int stage, Residence weights) {
  const auto part = p.part_of_stage(stage);
  const FlatGroupTable table(part, p.topology);
  auto states = state_bytes(table, p.states());
  if (weights == Residence::streamed) {
    states.parameters = 0;
    states.gathered_weights = SlotPlan(table, p.gathered_layers).bytes(base::size_of(p.dtype));
  }
  auto activations = message_buffer_bytes(p.model, p.stages, stage, p.micro(), Pass::evaluate);
  for (const auto& chunk : part.chunks) {
    auto one = part;
    one.chunks = {chunk};
    activations += activation_bytes(one, p.micro(), Pass::evaluate);
  }
  MemoryBytes out;
  using Category = base::MemoryCategory;
  auto& of = out.categories;
  of[Category::parameters] = states.parameters;
  of[Category::gathered_weights] = states.gathered_weights;
  if (weights == Residence::streamed && p.device == base::DeviceKind::cuda)
    of[Category::save_snapshot] = states.gathered_weights;
  of[Category::activations] = activations;
  of[Category::communication_staging] =
      tensor_staging_bytes(p.model, p.micro()) + expert_staging_bytes(part, p.micro(), Pass::evaluate);
  of[Category::workspace] = workspace_bytes(part, p.micro(), Pass::evaluate);
  out.on_host = of.elsewhere(p.device);
  out.reserve = reserve_bytes(p.micro(), p.topology, p.stages.chunks());
  return out;
}

MemoryBytes largest_evaluation_memory(const Plan& p, Residence weights) {
  auto most = evaluation_memory(p, 0, weights);
  for (int stage = 1; stage < p.pipeline; ++stage)
    if (const auto bytes = evaluation_memory(p, stage, weights); bytes.total() > most.total()) most = bytes;
  return most;
}

}  // namespace trainyard::plan

// Blocks of a step as profile-comm measured them.
#include "libtrain/plan/machine_time.h"
#include "libtrain/plan/measured_machine.h"
#include "libtrain/plan/step_time.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

// Elements of a block's weights that a rank holds, each as often as it has a gradient.
double held_elements(const Plan& plan, const Segment& s) {
  std::int64_t out = 0;
  for (const auto& group : s.kind->held_flat_groups(s.model, s.first, plan.experts()))
    for (const auto& p : group.parameters)
      out += p.stored_count() / (p.sharded && p.sharded->axis == Axis::tensor ? plan.tensor : 1);
  if (s.part == Part::output && s.model.tied) out += s.model.stored_vocabulary() * s.model.hidden / plan.tensor;
  return static_cast<double>(out);
}

}  // namespace

// Where the machine has measured this block, its passes take as long as they did, and what takes them keeps its
// estimated part.
void StepTimer::take_measured(const Plan& plan, const Segment& s, Recompute recompute, BlockSeconds& block) const {
  if (!machine_.measured || machine_.measured->blocks.empty()) return;
  const auto seconds = [&](BlockPass pass) {
    const auto estimated = [&](const MicroShape& shape) {
      const auto of = computing(shape, s, recompute);
      return pass == BlockPass::forward ? of.forward : pass == BlockPass::inputs ? of.forward + of.inputs : of.all();
    };
    auto out = machine_.measured->blocks.seconds(s, plan.micro(), pass, estimated);
    if (out) *out /= machine_.speed;
    return out;
  };
  const auto as = recompute == Recompute::none        ? BlockPass::step
                  : recompute == Recompute::selective ? BlockPass::selective
                                                      : BlockPass::full;
  const auto forward = seconds(BlockPass::forward);
  auto all = seconds(as);
  if (!all && s.part != Part::layers) all = seconds(BlockPass::step);
  const auto least = seconds(BlockPass::step);
  if (!forward || !all || !least || block.all() == 0) return;
  *all = std::max({*all, *least, *forward});  // noise apart, recomputation takes no less
  const double scale = *all / block.all(), backward = std::max(0.0, *all - *forward),
               estimated = block.inputs + block.weights;
  const double of_weights = estimated > 0 ? block.weights / estimated : 0;
  block.products *= scale, block.attention *= scale, block.kernels *= scale;
  block.forward = *forward, block.weights = backward * of_weights, block.inputs = backward - block.weights;
  if (plan.pipeline_schedule == PipelineSchedule::zero_bubble && block.weights > 0) {
    // Recomputation belongs to input gradients.
    const auto step = seconds(BlockPass::step), inputs = seconds(BlockPass::inputs);
    if (step && inputs)
      block.weights = std::clamp(*step - *inputs, 0.0, backward), block.inputs = backward - block.weights;
  }
  // A gradient is added to the sum of its step where no reduction does that: two reads and a write.
  if (!adds_to_sums(plan)) return;
  const double sum = move_seconds(machine_, 3.0 * sizeof(float) * held_elements(plan, s));
  block.kernels += sum, (block.weights > 0 ? block.weights : block.inputs) += sum;
}

bool adds_to_sums(const Plan& plan) { return plan.topology.size(Axis::data) == 1 || plan.local_accumulation > 1; }

std::vector<std::string> unmeasured_blocks(const Plan& plan, const Machine& machine) {
  std::vector<std::string> out;
  if (!machine.measured) return out;
  const auto shape = plan.micro();
  for (const auto& s : segments(plan.model)) {
    const auto measured = [&](BlockPass pass) {
      return machine.measured->blocks.seconds(s, shape, pass, [](const MicroShape&) { return 1; }).has_value();
    };
    if (measured(BlockPass::forward) && measured(BlockPass::step)) continue;
    const auto name = block_word(s.part);
    if (std::find(out.begin(), out.end(), name) == out.end()) out.emplace_back(name);
  }
  return out;
}

}  // namespace trainyard::plan

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

std::optional<StepTimer::MeasuredPasses> StepTimer::measured(const Plan& plan, const Segment& s, Recompute recompute,
                                                             BlockCalls calls) const {
  if (!machine_.measured || machine_.measured->blocks.empty()) return {};
  const auto seconds = [&](BlockPass pass) {
    const auto estimated = [&](const MicroShape& shape) {
      const auto of = computing(shape, s, recompute);
      return pass == BlockPass::forward ? of.forward : pass == BlockPass::inputs ? of.forward + of.inputs : of.all();
    };
    auto out = machine_.measured->blocks.seconds(s, plan.micro(), pass, estimated, calls);
    if (out) *out /= machine_.speed;
    return out;
  };
  const auto as = recompute == Recompute::none        ? BlockPass::step
                  : recompute == Recompute::selective ? BlockPass::selective
                                                      : BlockPass::full;
  const auto forward = seconds(BlockPass::forward), step = seconds(BlockPass::step);
  auto all = seconds(as);
  if (!all && s.part != Part::layers) all = step;
  if (!forward || !all || !step) return {};
  MeasuredPasses out{*forward, std::max({*all, *step, *forward}), {}};  // noise apart, recomputation takes no less
  if (plan.pipeline_schedule == PipelineSchedule::zero_bubble)
    if (const auto inputs = seconds(BlockPass::inputs)) out.weights = std::max(0.0, *step - *inputs);
  return out;
}

// Where the machine has measured this block, its passes take as long as they did, and what takes them keeps its
// estimated part.
void StepTimer::take_measured(const Plan& plan, const Segment& s, Recompute recompute, BlockSeconds& block) const {
  const auto passes = measured(plan, s, recompute, BlockCalls::left_out);
  if (!passes || block.all() == 0) return;
  const double scale = passes->all / block.all(), backward = passes->all - passes->forward,
               estimated = block.inputs + block.weights;
  const double of_weights = estimated > 0 ? block.weights / estimated : 0;
  block.products *= scale, block.attention *= scale, block.kernels *= scale;
  // Recomputation belongs to input gradients.
  block.forward = passes->forward;
  block.weights = block.weights > 0 && passes->weights ? std::min(*passes->weights, backward) : backward * of_weights;
  block.inputs = backward - block.weights;
}

// With the calls of its groups a block takes as long as it did with them. Calls are what it takes longer than alone: on
// the way, in handing them over, and in waiting for the other ranks.
void StepTimer::take_measured_calls(const Plan& plan, const Segment& s, Recompute recompute,
                                    BlockSeconds& block) const {
  const double estimated = block.tensor + block.experts, alone = block.all() - estimated;
  if (estimated == 0) return;
  const auto passes = measured(plan, s, recompute, BlockCalls::made);
  if (!passes) return;
  if (passes->all < alone)
    for (auto* part : {&block.products, &block.attention, &block.kernels}) *part *= passes->all / alone;
  const double scale = std::max(0.0, passes->all - alone) / estimated;
  block.tensor *= scale, block.experts *= scale;
  block.forward = passes->forward;
  block.weights = std::min(block.weights, passes->all - passes->forward);  // they make no calls
  block.inputs = passes->all - passes->forward - block.weights;
}

// A gradient is added to the sum of its step where no reduction does that: two reads and a write.
void StepTimer::add_sums(const Plan& plan, const Segment& s, BlockSeconds& block) const {
  if (!machine_.measured || machine_.measured->blocks.empty() || !adds_to_sums(plan)) return;
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

// Costs of the parts of a model, and what lies between them.
#include "libtrain/plan/step_time.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/machine_time.h"
#include "libtrain/plan/measured_machine.h"
#include "libtrain/plan/outside_passes.h"
#include "libtrain/plan/schedule/shared_cores.h"
#include "libtrain/plan/schedule/stage_messages.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace trainyard::plan {

namespace {

struct PassSeconds {
  double products = 0, attention = 0, kernels = 0;
  double all() const { return products + attention + kernels; }
};

PassSeconds pass_seconds(const PassWork& work, const Machine& machine, base::DType dtype) {
  PassSeconds out;
  for (const auto& p : work.products) out.products += product_seconds(machine, p, dtype);
  for (const auto& p : work.attention) out.attention += attention_seconds(machine, p, dtype);
  out.kernels = move_seconds(machine, work.bytes);
  return out;
}

std::size_t index_of(Recompute r) {
  for (std::size_t i = 0; i < recomputations.size(); ++i)
    if (recomputations.at(i) == r) return i;
  TRAINYARD_ASSERT(false, "an unknown recomputation");
  return 0;
}

// A rank that computes on all of its cores has none left for collectives and updates beside its passes.
bool overlaps(const Machine& machine) {
  return machine.device == base::DeviceKind::cuda || (machine.measured && machine.measured->spare_cores);
}

// Our ranks exchange partial sums in f32 and add them in a fixed order. A library adds them on the way, in the dtype of
// the activations.
GroupCall summed_by_library(GroupCall call, const ModelConfig& model, const MicroShape& shape) {
  if (std::string_view(call.operation) != "all_to_all") return call;
  const auto elements = call.bytes / base::size_of(call.type) / Widths(model, shape.tensor).partials;
  return {"reduce_scatter", shape.dtype, elements * base::size_of(shape.dtype), call.calls};
}

// By how much a rank is faster while all others that share its cores wait.
double faster_alone(const Plan& plan, const Machine& machine) {
  return machine.measured && plan.pipeline > 1 ? machine.measured->ranks_of_core : 1;
}

}  // namespace

void StepTimer::BlockSeconds::add(const BlockSeconds& o, double times) {
  forward += times * o.forward, inputs += times * o.inputs, weights += times * o.weights;
  products += times * o.products, attention += times * o.attention, kernels += times * o.kernels;
  tensor += times * o.tensor, experts += times * o.experts;
}

StepTimer::StepTimer(ModelConfig model, Machine machine, Execution execution)
    : model_(std::move(model)), machine_(std::move(machine)), execution_(execution) {
  for (auto& segment : segments(model_)) {
    auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const Segment& s) {
      return s.kind == segment.kind && s.part == segment.part && s.model == segment.model;
    });
    kind_of_.insert(kind_of_.end(), base::size(segment.times), base::size(kind - kinds_.begin()));
    if (kind == kinds_.end()) segment.times = 1, kinds_.push_back(std::move(segment));
  }
}

// Kernels of one micro-batch in a block, without collectives.
StepTimer::BlockSeconds StepTimer::computing(const MicroShape& shape, const Segment& s, Recompute recompute) const {
  BlockSeconds out;
  const auto work = s.kind->work(s.model, shape, execution_.attention);
  const auto pass = [&](const PassWork& of, double share, double& seconds) {
    const auto each = pass_seconds(of, machine_, shape.dtype);
    out.products += share * each.products, out.attention += share * each.attention;
    out.kernels += share * each.kernels, seconds += share * each.all();
  };
  pass(work.forward, 1, out.forward);
  pass(work.backward, 1, out.inputs);
  // Only some blocks can compute weight gradients apart from input gradients (zero-bubble).
  pass(work.weights, 1, s.kind->apart_flops(s.model, shape.lengths()) > 0 ? out.weights : out.inputs);
  if (recompute == Recompute::selective) pass(work.again, 1, out.inputs);
  if (recompute == Recompute::layers) {
    const double all = s.kind->forward_flops(s.model, shape.lengths());
    const bool whole = execution_.whole_recomputation || all == 0;
    pass(work.forward, whole ? 1 : s.kind->recompute_flops(s.model, shape.lengths()) / all, out.inputs);
  }
  return out;
}

StepTimer::BlockSeconds StepTimer::block_seconds(const Plan& plan, const Segment& s, Recompute recompute) const {
  const auto shape = s.shape(plan.micro());
  auto out = computing(shape, s, recompute);
  take_measured(plan, s, recompute, out);
  const auto calls = [&](double forward, double all, double& sum) {
    out.forward += forward, out.inputs += all - forward, sum += all;
  };
  const auto seconds_of_calls = [&](const std::vector<SizedCalls>& all) {
    double seconds = 0;
    for (const auto& c : all) seconds += static_cast<double>(c.calls) * call_seconds(machine_, plan.topology, c);
    return seconds;
  };
  // Who repeats whole layers repeats all calls of forward.
  const bool whole = recompute == Recompute::layers && execution_.whole_recomputation;
  const auto repeated = whole ? Recompute::none : recompute;
  if (shape.tensor > 1) {
    const auto of = [&](Pass p) {
      std::vector<SizedCalls> sized;
      for (const auto& ours : s.kind->tensor_calls(s.model, shape, p, repeated)) {
        const auto c = execution_.rings ? summed_by_library(ours, s.model, shape) : ours;
        sized.push_back({Axis::tensor, shape.tensor, c.operation, c.type, c.bytes, c.calls, c.calls});
      }
      return seconds_of_calls(sized);
    };
    const double forward = of(Pass::evaluate);
    calls(forward, of(Pass::train) + (whole ? forward : 0), out.tensor);
  }
  if (shape.experts.sends_rows()) {
    const auto of = [&](Pass p) {
      std::vector<SizedCalls> sized;
      for (const auto& c : s.kind->expert_calls(s.model, shape, p, repeated))
        for (auto& each : expert_group_calls(shape.experts, c, 1)) sized.push_back(std::move(each));
      return seconds_of_calls(sized);
    };
    const double forward = of(Pass::evaluate);
    calls(forward, of(Pass::train) + (whole ? forward : 0), out.experts);
  }
  take_measured_calls(plan, s, recompute, out);
  add_sums(plan, s, out);
  return out;
}

StepTimer::ShapeKey StepTimer::key_of(const Plan& plan, const Machine& machine) {
  return {plan.tensor,
          plan.sequence_parallel,
          plan.micro_batch,
          plan.expert_parallel,
          plan.expert_ranks_per_node,
          plan.expert_overlap_chunks,
          plan.pipeline_schedule == PipelineSchedule::zero_bubble,
          machine.measured && adds_to_sums(plan)};
}

const std::vector<StepTimer::OfRecomputations>& StepTimer::blocks(const Plan& plan) {
  if (plan.dtype != dtype_ || plan.lengths() != lengths_)
    known_.clear(), runs_.clear(), dtype_ = plan.dtype, lengths_ = plan.lengths();
  const auto [place, is_new] = known_.try_emplace(key_of(plan, machine_));
  if (is_new)
    for (const auto& kind : kinds_) {
      auto& of_kind = place->second.emplace_back();
      for (const auto r : recomputations) of_kind.at(index_of(r)) = block_seconds(plan, kind, r);
    }
  return place->second;
}

std::vector<StepTimer::BlockSeconds> StepTimer::parts(const Plan& plan) {
  const auto& known = blocks(plan);
  std::vector<BlockSeconds> out(base::size(plan.stages.parts()));
  for (int stage = 0; stage < plan.pipeline; ++stage) {
    const auto part = plan.part_of_stage(stage);
    const auto layers = layer_count(part), full = plan.recompute.full_layers(layers),
               recomputed = full + plan.recompute.selective_layers(layers);
    std::int64_t layer = 0;
    for (int chunk = 0; chunk < std::ssize(part.chunks); ++chunk) {
      auto& seconds = base::at(out, plan.stages.part(stage, chunk));
      const auto items = base::at(part.chunks, chunk);
      for (auto item = items.begin; item < items.end; ++item) {
        const auto kind = base::at(kind_of_, item);
        auto recompute = Recompute::none;
        if (kinds_[kind].part == Part::layers) {
          recompute = layer < full ? Recompute::layers : layer < recomputed ? Recompute::selective : Recompute::none;
          ++layer;
        }
        seconds.add(known[kind].at(index_of(recompute)));
      }
    }
  }
  return out;
}

double StepTimer::run_seconds(const Plan& plan, const std::vector<BlockSeconds>& parts) {
  const auto micros = plan.batch().micros_of(0);
  if (plan.pipeline == 1) {
    double each = 0;
    for (const auto& part : parts) each += part.all();
    return static_cast<double>(micros) * each;
  }
  const auto [place, is_new] =
      runs_.try_emplace({key_of(plan, machine_), plan.pipeline_schedule, plan.stages.boundaries, plan.recompute.full,
                         plan.recompute.selective, micros, plan.topology.stride(Axis::pipe)});
  if (is_new) place->second = run_stages(plan, parts);
  return place->second;
}

// Of the largest messages that pass a boundary.
double StepTimer::message(const Plan& plan) const {
  std::int64_t most = 0;
  for (int part = 1; part < plan.stages.parts(); ++part) {
    const auto messages = messages_before(plan.model, plan.stages, part, plan.micro());
    most = std::max({most, memory_bytes(messages.activations()), memory_bytes(messages.gradients())});
  }
  return message_seconds(machine_, plan.topology, static_cast<double>(most));
}

// The lists of all stages for so many micro-batches of a rank.
Simulated StepTimer::simulated(const Plan& plan, const std::vector<BlockSeconds>& parts, std::int64_t micros) const {
  std::vector<PartCosts> costs;
  for (const auto& part : parts) costs.push_back({part.forward, part.inputs, part.weights, 0});
  std::vector<std::vector<Action>> lists;
  const BatchPlan batch{micros, 1, 1, 1};
  for (int stage = 0; stage < plan.pipeline; ++stage)
    lists.push_back(step_actions(batch, 0, pipeline_of(plan, stage, batch), stage));
  auto run = simulate(lists, plan.virtual_stages, costs, message(plan), micros);
  TRAINYARD_ASSERT(run.problem.empty(), "the lists of a plan do not end: {}", run.problem);
  return run;
}

Simulated StepTimer::run(const Plan& plan) { return simulated(plan, parts(plan), plan.batch().micros_of(0)); }

// Of many micro-batches only some are simulated: the middle of a step repeats itself with each micro-batch that every
// stage computes.
double StepTimer::run_stages(const Plan& plan, const std::vector<BlockSeconds>& parts) {
  const std::int64_t micros = plan.batch().micros_of(0), stages = plan.pipeline, few = 2 * stages + micros % stages,
                     more = few + stages;
  const double faster = faster_alone(plan, machine_);
  const auto seconds = [&](std::int64_t of) {
    if (faster == 1) return simulated(plan, parts, of).seconds;
    auto dedicated = parts;
    for (auto& part : dedicated) part.forward /= faster, part.inputs /= faster, part.weights /= faster;
    return shared_core_seconds(simulated(plan, dedicated, of), static_cast<int>(std::ssize(parts)), faster,
                               message(plan));
  };
  if (micros <= more) return seconds(micros);
  const double of_few = seconds(few), of_more = seconds(more);
  // With few micro-batches a stage that waits longer may set the pace, with many it is the busiest one.
  return std::max(of_few + static_cast<double>((micros - few) / stages) * (of_more - of_few), at_least(plan));
}

// The first stage begins and ends a step. Before its first forward, weights of the embedding are gathered, and those of
// the first layer while the embedding computes. The gradients of the two come last, in the other order. Breadth first
// the micro-batches of the embedding share a buffer, so each waits for the reduction of the one before.
StepTimer::Edges StepTimer::edges(const Plan& plan) {
  const auto& known = blocks(plan);
  const auto item = [&](std::int64_t i) { return item_seconds(plan, machine_, i, execution_.rings); };
  const auto& computing = known[kind_of_[0]].at(index_of(Recompute::none));
  const double backward = computing.inputs + computing.weights;
  const auto embedding = item(0);
  Edges out{embedding.gather, embedding.reduction};
  if (plan.part_of_stage(0).chunks.front().end > 1) {
    const auto layer = item(1);
    out.first += std::max(0.0, layer.gather - computing.forward);
    out.last += std::max(0.0, layer.reduction - backward);
  }
  const auto batch = plan.batch();
  if (plan.breadth_first(batch))
    out.last += static_cast<double>(batch.accumulation_steps() - 1) * std::max(0.0, embedding.reduction - backward);
  return out;
}

// Calls of a step that passes do not hide. Weights of ZeRO 1 and 2 are gathered beside the first forward. Reductions go
// on beside the passes that follow them: of the last accumulation step beside the last backward, breadth first beside
// all of them. No more than all passes can be hidden.
double StepTimer::exposed_data(const Plan& plan, int stage, double forward, double backward, double passes) {
  const auto data = data_seconds(plan, machine_, stage, execution_.rings);
  const double all = data.gathers + data.at_begin + data.reductions;
  if (!overlaps(machine_) || !execution_.overlap) return data.at_end + all;
  if (all == 0) return data.at_end;
  // A single buffer of layers is free only when the layer before has been computed, or its gradients have been reduced.
  if (plan.gathered_layers == 1 && gradient_plan(plan.states()).buffers)
    return data.at_end + std::max(0.0, data.at_begin - forward) + data.gathers + data.reductions;
  const auto batch = plan.batch();
  const double of_last = plan.breadth_first(batch)
                             ? data.reductions - static_cast<double>(batch.micros_of(0)) * backward
                             : data.reductions / static_cast<double>(batch.accumulation_steps()) - backward;
  const auto edge = edges(plan);
  return data.at_end +
         std::max(std::max(edge.first, data.at_begin - forward) + std::max(edge.last, of_last), all - passes);
}

void StepTimer::require_rates(const Plan& plan) const {
  require_links(machine_, plan.topology.world());
  if (!base::is_narrow(plan.dtype) && machine_.flops_32bit <= 0)
    refuse_unknown(machine_, "flops-32bit", "a step in f32");
}

StepTime StepTimer::time(const Plan& plan) {
  require_rates(plan);
  const auto all = parts(plan);
  StepTime out;
  const auto of_stage = [&](int stage) {
    BlockSeconds sum;
    for (int c = 0; c < plan.stages.chunks(); ++c) sum.add(base::at(all, plan.stages.part(stage, c)));
    return sum;
  };
  auto most = of_stage(0);
  for (int stage = 1; stage < plan.pipeline; ++stage) {
    const auto other = of_stage(stage);
    if (other.all() > most.all()) most = other, out.stage = stage;
  }
  const auto batch = plan.batch();
  const auto micros = static_cast<double>(batch.micros_of(0));
  out.products = micros * most.products, out.attention = micros * most.attention, out.kernels = micros * most.kernels;
  out.tensor = micros * most.tensor, out.experts = micros * most.experts;
  const double busy = micros * most.all(), backward = most.inputs + most.weights;
  const double run = run_seconds(plan, all);
  if (run < busy)
    for (auto* part : {&out.products, &out.attention, &out.kernels, &out.tensor, &out.experts}) *part *= run / busy;
  out.idle = std::max(0.0, run - busy);

  out.data = exposed_data(plan, out.stage, most.forward, backward, busy);
  // The host updates while the passes of the next step begin. Each layer waits for its own update.
  const auto update = update_seconds(plan, machine_, out.stage);
  out.update = update.here + (overlaps(machine_) ? std::max(0.0, update.on_host - most.forward) : update.on_host);
  const auto moving = moving_seconds(plan, machine_, out.stage);
  out.moving = std::max({0.0, moving.all - std::min(busy, run), moving.gradients_down - backward,
                         std::max(moving.weights_up, moving.update_on_disk) - most.forward});
  out.seconds = run + out.data + out.update + out.moving;
  return out;
}

// All stages one after the other for the first micro-batch, then the slowest of them for each further one.
double StepTimer::validation(const Plan& plan, std::int64_t sequences) {
  const auto all = parts(plan);
  double through = 0, most = 0;
  for (int stage = 0; stage < plan.pipeline; ++stage) {
    double forward = 0;
    for (int c = 0; c < plan.stages.chunks(); ++c) forward += base::at(all, plan.stages.part(stage, c)).forward;
    through += forward, most = std::max(most, forward);
  }
  const auto together = plan.micro_batch * plan.topology.size(Axis::data);
  // Of a forward pass.
  const double gathers = data_seconds(plan, machine_, 0, execution_.rings).gathers /
                         static_cast<double>(2 * (plan.breadth_first(plan.batch()) ? 1 : plan.batch().micros_of(0)));
  const double first = plan.zero == 3 ? edges(plan).first : 0;
  const auto rounds = static_cast<double>((sequences + together - 1) / together);
  return through + (rounds - 1) * most +
         rounds * (overlaps(machine_) && execution_.overlap && plan.gathered_layers > 1
                       ? std::max(first, gathers - most)
                       : gathers);
}

double StepTimer::passes(const Plan& plan) { return run_seconds(plan, parts(plan)); }

// Before a stage's first forward every stage before has one. Behind its last backward each has one as well, unless
// weight gradients come last.
double StepTimer::at_least(const Plan& plan) {
  const auto all = parts(plan);
  const auto micros = static_cast<double>(plan.batch().micros_of(0));
  double most = 0, before = 0;
  for (int stage = 0; stage < plan.pipeline; ++stage) {
    double busy = 0;
    for (int c = 0; c < plan.stages.chunks(); ++c) busy += base::at(all, plan.stages.part(stage, c)).all();
    most = std::max(most, before + micros * busy);
    const auto& first = base::at(all, plan.stages.part(stage, 0));
    before += first.forward;
    if (plan.pipeline_schedule != PipelineSchedule::zero_bubble) before += first.inputs + first.weights;
  }
  return most / faster_alone(plan, machine_);
}

Execution execution_of_text(const std::string& text, const std::string& spelled) {
  Execution out;
  const std::vector<std::pair<std::string, std::function<void()>>> words{
      {"unfused-attention", [&] { out.attention = AttentionKernels::apart; }},
      {"no-overlap", [&] { out.overlap = false; }},
      {"whole-recomputation", [&] { out.whole_recomputation = true; }},
      {"rings", [&] { out.rings = true; }}};
  std::set<std::string> given;
  std::vector<std::string> names;
  for (const auto& [name, set] : words) names.push_back(name);
  std::istringstream rest(text);
  for (std::string word; std::getline(rest, word, ',');) {
    const auto found = std::find_if(words.begin(), words.end(), [&](const auto& w) { return w.first == word; });
    if (found == words.end())
      throw base::UsageError(fmt::format("{} {} is not known", spelled, base::one_line(word)),
                             fmt::format("one or more of {}, with commas and no spaces", base::listed(names, "and")));
    if (!given.insert(word).second)
      throw base::UsageError(fmt::format("{}: {} comes twice", spelled, word), "name it once");
    found->second();
  }
  return out;
}

double save_seconds(const Plan& plan, const Machine& machine, double between) {
  const auto bytes = static_cast<double>(memory_of_stage(plan, 0).categories[base::MemoryCategory::save_snapshot]);
  const bool gpu = machine.device == base::DeviceKind::cuda;
  const double copy = gpu && machine.host_link_bandwidth > 0
                          ? bytes / (machine.host_link_bandwidth * machine.link_share)
                          : move_seconds(machine, 2 * bytes);
  const double disk = machine.disk_write > 0 ? machine.disk_write : machine.disk_read;
  if (disk <= 0) return copy;
  const double written = bytes * devices_used(machine, plan.topology.world()) / disk;
  return copy + std::max(0.0, written - between);
}

StepInterval step_interval(const Plan& plan, const Machine& machine, const Execution& execution) {
  const auto with = [&](double factor) {
    return StepTimer(plan.model, with_rates(machine, factor), execution).time(plan);
  };
  double faster = rates_within, slower = rates_within;
  if (machine.measured)
    faster = std::max(faster, machine.measured->at_times_faster),
    slower = std::max(
        {slower, machine.measured->at_times_slower, machine.measured->ranks_of_core > 1 ? shared_cores_slower : 1});
  return {with(1), with(faster).seconds, with(1 / slower).seconds};
}

PredictedStep predicted_step(const StepInterval& interval, const Machine& machine) {
  PredictedStep out{machine.name, interval.median.seconds, interval.low, interval.high, {}};
  for (const auto& part : step_time_parts) out.parts.emplace_back(part.key, interval.median.*part.seconds);
  return out;
}

std::string step_seconds_text(double seconds) {
  if (seconds >= 1000) return base::duration_text(seconds);
  if (seconds >= 0.9995 || seconds == 0) return base::rate_text(seconds, "s");
  return seconds >= 0.9995e-3 ? base::rate_text(1e3 * seconds, "ms") : base::rate_text(1e6 * seconds, "us");
}

double device_flops(const Plan& plan, double seconds) { return plan.flops / plan.topology.world() / seconds; }

double device_model_flops(const Plan& plan, double seconds) {
  return step_flops(plan.model, plan.global_batch, plan.lengths()) / plan.topology.world() / seconds;
}

}  // namespace trainyard::plan

// Costs of the parts of a model, and what lies between them.
#include "libtrain/plan/step_time.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/activation_use.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/disk_use.h"
#include "libtrain/plan/machine_time.h"
#include "libtrain/plan/measured_machine.h"
#include "libtrain/plan/schedule/shared_cores.h"

#include <algorithm>
#include <functional>
#include <sstream>
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

[[noreturn]] void refuse_unknown(const Machine& m, const char* rate, const char* what) {
  throw base::InputError(fmt::format("the machine {} has no {}, which {} needs", m.name, rate, what),
                         m.measured ? std::string("profile-comm --storage FOLDERS measures disks, beside a rank itself")
                                    : base::text("add it to a file of your own: $machine FILE.toml"));
}

// Collectives of a rank of the stage outside of layers, in a step: gathers for every micro-batch, reductions, and
// gathers at the end, which nothing hides.
struct DataSeconds {
  double gathers = 0, reductions = 0, at_end = 0;
};
DataSeconds data_seconds(const Plan& plan, const Machine& machine, int stage, bool rings) {
  DataSeconds out;
  const auto part = plan.part_of_stage(stage);
  auto calls = step_calls(part, plan.states(), plan.reduction, 0);
  std::vector<std::string> of_stages;
  for (const auto& group : flat_groups_of_stages(plan.model, plan.stages))
    if (std::find(group.stages.begin(), group.stages.end(), stage) != group.stages.end())
      of_stages.push_back(group.flat_group);
  for (auto& c : flat_group_of_stages_calls(part, of_stages, plan.states())) calls.push_back(std::move(c));
  for (auto& c : calls) {
    if (rings && c.operation == "ordered_reduce_scatter") c.operation = "reduce_scatter";
    const double seconds = static_cast<double>(c.calls) * call_seconds(machine, plan.topology, c);
    // The exchange of zero groups comes before the first gathers of a step, and goes on beside passes as they do.
    const bool exchange = c.operation == "all_to_all", gather = c.operation == "all_gather";
    const bool before_passes = exchange || (gather && plan.zero == 3 && !c.group.is_stages());
    (before_passes ? out.gathers : gather ? out.at_end : out.reductions) += seconds;
  }
  return out;
}

// Of what the update of a stage reads and writes: in the memory of the rank, and elsewhere by its host.
constexpr double bytes_of_core = 17e9;  // a second, that AdamW reads and writes on one core (bench/RESULTS.md)
struct UpdateSeconds {
  double here = 0, on_host = 0;
};
UpdateSeconds update_seconds(const Plan& plan, const Machine& machine, int stage) {
  using Category = base::MemoryCategory;
  const auto memory = memory_of_stage(plan, stage);
  const auto bytes = [&](Category c) { return static_cast<double>(memory.categories[c]); };
  // States are read and written; gradients are read for their norm and for the update; weights are written.
  const double here = 2 * bytes(Category::optimizer) + 2 * bytes(Category::gradients) + bytes(Category::parameters);
  const double of_update =
      machine.measured ? machine.measured->update_rate * machine.speed : 0;  // of a rank; 0: unknown
  UpdateSeconds out{of_update > 0 ? here / of_update : move_seconds(machine, here)};
  double elsewhere = 0;
  const auto offload = offload_of_stage(plan, stage);
  for (const auto& e : offload.extents()) {
    const bool read_and_written = e.held == Held::master || e.held == Held::state;
    elsewhere += (read_and_written ? 2 : 1) * static_cast<double>(e.bytes());
  }
  if (elsewhere == 0) return out;
  const bool gpu = machine.device == base::DeviceKind::cuda;
  if (gpu && machine.host_bandwidth <= 0) refuse_unknown(machine, "host-bandwidth", "an update on the host");
  double of_host = machine.host_bandwidth * machine.memory_share;
  if (machine.cores > 0) of_host = std::min(of_host, machine.cores * bytes_of_core);
  const double rate = gpu             ? of_host / machine.devices_per_node
                      : of_update > 0 ? of_update
                                      : machine.memory_bandwidth * machine.memory_share;
  out.on_host = elsewhere / rate;
  return out;
}

// Seconds of a step's bytes on the way to and from the host or the disks of the node, which all its devices share.
struct MovingSeconds {
  double all = 0;
  double gradients_down = 0, weights_up = 0;  // of them, on the link and once a step
};
MovingSeconds moving_seconds(const Plan& plan, const Machine& machine, int stage) {
  MovingSeconds out;
  if (!plan.offload.any()) return out;
  const auto link = link_of_step(plan, stage, plan.global_batch);
  if (link != LinkBytes{}) {
    if (machine.host_link_bandwidth <= 0) refuse_unknown(machine, "host-link-bandwidth", "what lies on the host");
    const double rate = machine.host_link_bandwidth * machine.link_share;
    const auto once = offload_of_stage(plan, stage).update_link();
    out.all = static_cast<double>(std::max(link.down, link.up)) / rate;
    out.gradients_down = static_cast<double>(once.down) / rate, out.weights_up = static_cast<double>(once.up) / rate;
  }
  const auto disk = disk_of_step(plan, stage, plan.global_batch);
  if (disk.read + disk.written > 0) {
    if (machine.disk_read <= 0) refuse_unknown(machine, "disk-read", "what lies on disk");
    if (machine.measured && machine.measured->storage.both > 0) {
      out.all = std::max(out.all, machine.measured->storage.seconds({disk.read, disk.written}) / machine.speed);
      return out;
    }
    const double ranks = machine.devices_per_node,
                 writes = machine.disk_write > 0 ? machine.disk_write : machine.disk_read;
    out.all = std::max(out.all, ranks * (static_cast<double>(disk.read) / machine.disk_read +
                                         static_cast<double>(disk.written) / writes));
  }
  return out;
}

}  // namespace

namespace {

// A rank that computes on all of its cores has none left for collectives and updates beside its passes.
bool overlaps(const Machine& machine) { return machine.device == base::DeviceKind::cuda; }

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
  pass(work.weights, 1, s.kind->apart_flops(s.model, shape.sequence) > 0 ? out.weights : out.inputs);
  if (recompute == Recompute::selective) pass(work.again, 1, out.inputs);
  if (recompute == Recompute::layers) {
    const double all = s.kind->forward_flops(s.model, shape.sequence);
    const bool whole = execution_.whole_recomputation || all == 0;
    pass(work.forward, whole ? 1 : s.kind->recompute_flops(s.model, shape.sequence) / all, out.inputs);
  }
  return out;
}

StepTimer::BlockSeconds StepTimer::block_seconds(const Plan& plan, const Segment& s, Recompute recompute) const {
  const auto shape = plan.micro();
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
      for (const auto& c : s.kind->tensor_calls(s.model, shape, p, repeated))
        sized.push_back({Axis::tensor, shape.tensor, c.operation, c.type, c.bytes, c.calls, c.calls});
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
  if (plan.dtype != dtype_ || plan.sequence != sequence_)
    known_.clear(), runs_.clear(), dtype_ = plan.dtype, sequence_ = plan.sequence;
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

double StepTimer::message(const Plan& plan) const {
  return message_seconds(machine_, plan.topology, static_cast<double>(stream_bytes(plan.model, plan.micro())));
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
double StepTimer::run_stages(const Plan& plan, const std::vector<BlockSeconds>& parts) const {
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
  return of_few + static_cast<double>((micros - few) / stages) * (of_more - of_few);
}

StepTime StepTimer::time(const Plan& plan) {
  require_links(machine_, plan.topology.world());
  if (!base::is_narrow(plan.dtype) && machine_.flops_32bit <= 0)
    refuse_unknown(machine_, "flops-32bit", "a step in f32");
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

  const auto data = data_seconds(plan, machine_, out.stage, execution_.rings);
  const auto rounds = static_cast<double>(batch.accumulation_steps());
  // What the last backward does not hide stays, and what all passes do not hide.
  const double of_last = data.reductions / rounds - backward;
  const bool beside = overlaps(machine_);
  out.data = data.at_end + (!beside              ? data.reductions + data.gathers
                            : execution_.overlap ? std::max({0.0, of_last, data.gathers + data.reductions - busy})
                                                 : data.reductions + std::max(0.0, data.gathers - busy));
  // The host updates while the passes of the next step begin. Each layer waits for its own update.
  const auto update = update_seconds(plan, machine_, out.stage);
  out.update = update.here + (beside ? std::max(0.0, update.on_host - most.forward) : update.on_host);
  const auto moving = moving_seconds(plan, machine_, out.stage);
  out.moving = std::max(
      {0.0, moving.all - std::min(busy, run), moving.gradients_down - backward, moving.weights_up - most.forward});
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
  const auto rounds = static_cast<double>((sequences + together - 1) / together);
  return through + (rounds - 1) * most + rounds * (overlaps(machine_) ? std::max(0.0, gathers - most) : gathers);
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
  std::vector<std::string> names;
  for (const auto& [name, set] : words) names.push_back(name);
  std::istringstream rest(text);
  for (std::string word; std::getline(rest, word, ',');) {
    const auto found = std::find_if(words.begin(), words.end(), [&](const auto& w) { return w.first == word; });
    if (found == words.end())
      throw base::UsageError(fmt::format("{} {} is not known", spelled, base::one_line(word)),
                             fmt::format("one or more of {}, with commas and no spaces", base::listed(names, "and")));
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
  const double written = bytes * std::min(machine.devices_per_node, plan.topology.world()) / disk;
  return copy + std::max(0.0, written - between);
}

StepInterval step_interval(const Plan& plan, const Machine& machine, const Execution& execution) {
  const auto with = [&](double factor) {
    return StepTimer(plan.model, with_rates(machine, factor), execution).time(plan);
  };
  double faster = rates_within, slower = rates_within;
  if (machine.measured)
    faster = std::max(faster, machine.measured->at_times_faster),
    slower = std::max(slower, machine.measured->at_times_slower);
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
  return step_flops(plan.model, plan.global_batch, plan.sequence) / plan.topology.world() / seconds;
}

}  // namespace trainyard::plan

// Checks the decisions of a plan.
#include "libtrain/plan/decision_problems.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/memo.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/blocks/known_model.h"
#include "libtrain/plan/blocks/sharing.h"
#include "libtrain/plan/dispatch_rounds.h"
#include "libtrain/plan/expert_checks.h"
#include "libtrain/plan/extent.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/model_file/expert_problems.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/schedule/partition.h"
#include "libtrain/plan/schedule_problems.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace trainyard::plan {

namespace {

// What a model was found to be free of. Its problems are not kept: their words depend on how settings are named.
struct FineModel {
  bool model = false, kinds = false, flat_groups = false;
  std::optional<Sharing> sharing = {};  // made when it is asked for
};

// Of the thread: a planner checks many plans of one model, and checking the model is expensive.
std::shared_ptr<FineModel> fine_model(const ModelConfig& m) {
  constexpr std::size_t most = 16;
  thread_local base::Memo<std::shared_ptr<const KnownModel>, std::shared_ptr<FineModel>> known(most);
  auto key = known_model(m);
  if (auto before = known.find(key)) return *std::move(before);
  return known.keep(std::move(key), std::make_shared<FineModel>());
}

// problems(m), made at most once where there are none.
std::vector<std::string> model_problems(const ModelConfig& m) {
  const auto fine = fine_model(m);
  if (fine->model) return {};
  auto out = problems(m);
  fine->model = out.empty();
  return out;
}

std::vector<Problem> range_problems(const Plan& p) {
  std::vector<Problem> out;
  const auto range = [&](const char* setting, auto value, auto range) {
    if (!range.holds(value))
      out.push_back(
          {fmt::format("{} {} must lie between {} and {}", base::setting_name(setting), value, range.low, range.high),
           fmt::format("give a value from {} to {}", range.low, range.high)});
  };
  range("ranks", p.topology.world(), ranges::ranks);
  range("tensor-parallel", p.tensor, ranges::tensor);
  range("expert-parallel", p.expert_parallel, ranges::expert_parallel);
  range("expert-ranks-per-node", p.expert_ranks_per_node, ranges::expert_ranks_per_node);
  range("expert-overlap-chunks", p.expert_overlap_chunks, ranges::expert_overlap_chunks);
  range("expert-capacity-buffer", p.expert_capacity_buffer, ranges::expert_capacity_buffer);
  range("pipeline-parallel", p.pipeline, ranges::pipeline);
  range("virtual-stages", p.virtual_stages, ranges::virtual_stages);
  range("zero", p.zero, ranges::zero);
  if (p.zero_group != p.of_a_node) range("zero-group", p.zero_group, ranges::zero_group);
  if (p.reduction_ranks_per_node != p.of_a_node)
    range("reduction-ranks-per-node", p.reduction_ranks_per_node, ranges::reduction_ranks_per_node);
  range("global-batch", p.global_batch, ranges::global_batch);
  range("micro-batch", p.micro_batch, ranges::micro_batch);
  range("local-accumulation", p.local_accumulation, ranges::local_accumulation);
  range("threads", p.threads, ranges::threads);
  range("gathered-layers", p.gathered_layers, ranges::gathered_layers);
  range("sequence", p.sequence, ranges::sequence);
  range("device-memory", p.device_memory, base::Range<std::int64_t>{0, base::most_bytes});
  if (base::is_narrow(p.moment_dtype) && optimizer_kind(p.optimizer).has_factored_states())
    out.push_back({base::text("$optimizer {} keeps its states in f32", p.optimizer),
                   base::text("$moment-dtype f32, or another $optimizer")});
  if (p.ema > 0 && base::is_narrow(p.moment_dtype))
    out.push_back(
        {base::text("$ema {} with $moment-dtype bf16: an average in bf16 could not follow the weights", p.ema),
         base::text("$moment-dtype f32, or leave $ema out")});
  return out;
}

std::int64_t largest_divisor(std::int64_t of, std::int64_t at_most) {
  for (auto d = std::min(of, at_most); d > 1; --d)
    if (of % d == 0) return d;
  return 1;
}

// The largest number of lanes that the model can have, at most its own.
std::string lanes_hint(const ModelConfig& m) {
  const auto of_experts = has_experts(m) ? expert_width(m) : m.ffn;
  const auto widths = std::gcd(std::gcd(m.kv_heads, of_experts), std::gcd(m.ffn, m.stored_vocabulary()));
  return base::text("$lanes {}", largest_divisor(widths, m.lanes));
}

void batch_problems(const Plan& p, std::vector<Problem>& out);

// The smallest micro-batch that makes the batch legal; 0: there is none.
std::int64_t legal_micro_batch(Plan p) {
  for (p.micro_batch = (p.global_batch + ranges::most_micros - 1) / ranges::most_micros;
       ranges::micro_batch.holds(p.micro_batch) && p.micro_batch <= p.global_batch; ++p.micro_batch) {
    if (p.global_batch % p.micro_batch != 0) continue;
    std::vector<Problem> wrong;
    batch_problems(p, wrong);
    if (wrong.empty()) return p.micro_batch;
  }
  return 0;
}

void batch_problems(const Plan& p, std::vector<Problem>& out) {
  const auto report = [&](std::string message, std::string hint) {
    out.push_back({std::move(message), std::move(hint)});
  };
  if (p.global_batch % p.micro_batch != 0)
    return report(base::text("$global-batch {} is not a multiple of $micro-batch {}", p.global_batch, p.micro_batch),
                  base::text("$global-batch {}", (p.global_batch / p.micro_batch + 1) * p.micro_batch));
  const auto batch = p.batch();
  const int replicas = p.topology.size(Axis::data);
  if (batch.micros() > ranges::most_micros) {
    const auto micro = legal_micro_batch(p);
    return report(base::text("$global-batch {} makes {} micro-batches of a step, more than {}", p.global_batch,
                             batch.micros(), ranges::most_micros),
                  micro > 0 ? base::text("$micro-batch {}, or a smaller $global-batch", micro)
                            : base::text("a smaller $global-batch"));
  }
  if (batch.micros() % p.local_accumulation != 0)
    return report(
        base::text("$local-accumulation {} does not divide {} micro-batches", p.local_accumulation, batch.micros()),
        base::text("$local-accumulation {}", largest_divisor(batch.micros(), p.local_accumulation)));
  if (replicas > batch.accumulation_groups() && p.topology.size(Axis::tensor) == p.tensor &&
      p.topology.size(Axis::pipe) == p.pipeline)
    report(
        fmt::format("{} ranks{}, but a step has only {} group{} of micro-batches: some ranks would have no work",
                    p.topology.world(), p.topology.world() > replicas ? fmt::format(" in {} replicas", replicas) : "",
                    batch.accumulation_groups(), batch.accumulation_groups() == 1 ? "" : "s"),
        base::text("raise $global-batch to {}, lower $micro-batch or $local-accumulation, or use fewer ranks",
                   replicas * p.micro_batch * p.local_accumulation));
}

// Each size of a ramp but the last is the first one and some increments, so the first two sizes decide whether every
// size divides. The first one is the smallest.
void ramp_problems(const Plan& p, std::vector<Problem>& out) {
  if (!p.batch_ramp.grows()) return;
  const GlobalBatch whole{p.global_batch, p.batch_ramp};
  try {
    require_ramp(whole, base::setting_name("global-batch"));
  } catch (const base::UsageError& e) {
    out.push_back({e.what(), e.hint()});
    return;
  }
  for (const auto size : {p.batch_ramp.start, std::min(p.batch_ramp.start + p.batch_ramp.increment, p.global_batch)}) {
    auto step = p;
    step.global_batch = size, step.batch_ramp = {};
    std::vector<Problem> wrong;
    if (size < p.global_batch) batch_problems(step, wrong);
    if (wrong.empty()) continue;
    out.push_back(
        {base::text("$global-batch {} has steps of {}: {}", global_batch_text(whole), size, wrong.front().message),
         base::text("a ramp that begins at {} or more and grows by multiples of {}, lower $micro-batch or "
                    "$local-accumulation, or fewer ranks",
                    p.micro_batch * p.local_accumulation * p.topology.size(Axis::data),
                    p.micro_batch * p.local_accumulation)});
    return;
  }
}

// Why t tensor-parallel ranks do not fit the plan's ranks. What the model itself forbids is in plan/blocks/sharing.h,
// and stages that do not divide the ranks are reported as such (stage_problems).
std::string ranks_problem(const Plan& p, std::int64_t t) {
  const int world = p.topology.world();
  if (world % (t * p.pipeline) == 0 || (world % t == 0 && world % p.pipeline != 0)) return {};
  if (p.pipeline > 1 && world % p.pipeline == 0)
    return base::text("$tensor-parallel {} does not divide the {} of a stage", t,
                      base::counted(world / p.pipeline, "rank"));
  return base::text("$tensor-parallel {} does not divide {}", t, base::counted(world, "rank"));
}
// If products belong to a library, 1 lane is allowed: then bits are equal only for equal --tensor-parallel.
bool lanes_divide(const Plan& p, std::int64_t t) {
  const bool whole = p.device == base::DeviceKind::cuda && p.model.lanes == 1;
  return whole || p.model.lanes % t == 0;
}

std::string lanes_problem(const Plan& p, const LanesOf& of) {
  if (lanes_divide(p, p.tensor)) return {};
  return base::text("$tensor-parallel {} does not divide lanes {}{}", p.tensor, p.model.lanes,
                    of.checkpoint.empty() ? "" : ", the lanes of " + of.checkpoint);
}

// How the model would get lanes that --tensor-parallel divides, if it may have other lanes.
std::string way_to_other_lanes(const Plan& p, const LanesOf& of) {
  auto other = p.model;
  other.lanes = p.tensor;
  if (of.lanes == Lanes::evaluated || !problems(other).empty()) return {};
  if (of.lanes == Lanes::of_the_run)
    return base::text("; $lanes {} $change model goes on with sums of {} lanes, which round differently", p.tensor,
                      p.tensor);
  return base::text("; $lanes {} allows it, in another run", p.tensor);
}

// The hint names the nearest degrees that model and ranks allow, and the ranks or lanes that would allow this degree.
std::optional<Problem> degree_problem(const Plan& p, const LanesOf& lanes) {
  if (p.tensor == 1) return std::nullopt;
  const auto fine = fine_model(p.model);
  if (!fine->sharing) fine->sharing.emplace(p.model);
  const auto& sharing = *fine->sharing;
  const auto ranks = ranks_problem(p, p.tensor), model = sharing.obstacle(p.tensor), cut = lanes_problem(p, lanes);
  if (ranks.empty() && model.empty() && cut.empty()) return std::nullopt;
  auto hint = tensor_flags(
      sharing.nearest(p.tensor, [&](std::int64_t t) { return ranks_problem(p, t).empty() && lanes_divide(p, t); }));
  if (!ranks.empty() && model.empty() && cut.empty())
    hint += fmt::format(", or {} ranks", (p.topology.world() / (p.tensor * p.pipeline) + 1) * p.tensor * p.pipeline);
  if (!cut.empty() && ranks.empty() && model.empty()) hint += way_to_other_lanes(p, lanes);
  const auto& of_model = model.empty() ? cut : model;
  return Problem{fmt::format("{}{}{}", ranks, ranks.empty() || of_model.empty() ? "" : "; ", of_model), hint};
}

// Kinds from outside the library that do not support tensor parallelism.
void kinds_problems(const Plan& p, std::vector<Problem>& out) {
  const auto fine = fine_model(p.model);
  if (fine->kinds) return;
  const auto before = out.size();
  constexpr std::array parts{"the embedding", "the layers", "the bridge", "the head"};  // as Part
  for (const auto& segment : segments(p.model))
    if (!segment.kind->shared_by_tensor_ranks())
      out.push_back({fmt::format("the model's kind of {} does not support tensor parallelism",
                                 parts.at(static_cast<std::size_t>(segment.part))),
                     base::text("$tensor-parallel 1")});
  std::set<std::string> branches;
  for (const auto& segment : segments(p.model))
    if (segment.part == Part::layers) branches.insert(segment.model.branches.begin(), segment.model.branches.end());
  for (const auto& name : branches)
    if (!branch_kind(name).shared_by_tensor_ranks())
      out.push_back({fmt::format("the model's branch '{}' does not support tensor parallelism", name),
                     base::text("$tensor-parallel 1")});
  fine->kinds = out.size() == before;
}

// Rows of hidden states that tensor-parallel ranks cannot divide or exchange: those of sequences of this length.
void rows_problems(const Plan& p, const std::string& setting, std::int64_t length, std::vector<Problem>& out) {
  const auto micro = p.micro();
  const auto rows = p.micro_batch * length, grain = std::int64_t{64} * p.tensor;
  if ((rows % 4) * (p.model.hidden % 4) * micro.element_bytes() % 4 != 0)
    out.push_back({base::text("$tensor-parallel {} adds words of 4 bytes: the {} rows of a micro-batch "
                              "($micro-batch {} of {} {}) of {} {} numbers are not a multiple of 4 bytes",
                              p.tensor, rows, p.micro_batch, setting, length, p.model.hidden, base::name_of(p.dtype)),
                   base::text("an even $micro-batch or {}, or $dtype f32", setting)});
  if (!p.sequence_parallel || rows % grain == 0) return;
  const auto step = grain / std::gcd(grain, length);
  out.push_back({base::text("$sequence-parallel gives each of {} tensor ranks whole blocks of 64 tokens: the {} "
                            "tokens of a micro-batch ($micro-batch {} of {} {}) are not a multiple of {}",
                            p.tensor, rows, p.micro_batch, setting, length, grain),
                 base::text("$micro-batch {}, another {}, or $sequence-parallel off",
                            (p.micro_batch + step - 1) / step * step, setting)});
}

void tensor_problems(const Plan& p, const LanesOf& lanes, std::vector<Problem>& out) {
  auto degree = degree_problem(p, lanes);
  const bool divided = !degree;
  if (degree) out.push_back(std::move(*degree));
  else if (p.topology.size(Axis::tensor) != p.tensor && p.topology.world() % p.pipeline == 0)
    out.push_back({base::text("the topology has {} tensor ranks, but $tensor-parallel is {}",
                              p.topology.size(Axis::tensor), p.tensor),
                   base::text("$tensor-parallel {}", p.topology.size(Axis::tensor))});
  if (p.tensor > 1) {
    if (p.reduction == Reduction::fast)
      out.push_back(
          {base::text(
               "$reduction fast lets the library choose the order of sums in each tensor-parallel group: copies of the "
               "same weights could drift apart"),
           base::text("$reduction ordered, or $tensor-parallel 1")});
    kinds_problems(p, out);
    if (divided && p.sequence <= p.model.context) rows_problems(p, base::setting_name("sequence"), p.sequence, out);
    if (divided && p.source_sequence > 0 && p.source_sequence <= p.model.context)
      rows_problems(p, base::setting_name("source-sequence"), p.source_sequence, out);
  } else if (p.sequence_parallel) {
    out.push_back({base::text("$sequence-parallel splits tokens over tensor-parallel ranks, and $tensor-parallel is 1"),
                   base::text("$sequence-parallel off, or $tensor-parallel 2 too")});
  }
}

// The overlap chunks of a rank's experts are equal runs in every layer.
void chunk_problems(const Plan& p, std::vector<Problem>& out) {
  if (crosses_in_rounds(p))
    out.push_back({base::text("$expert-overlap-chunks {} needs experts with a capacity: without one, tokens are sent "
                              "in dispatch rounds",
                              p.expert_overlap_chunks),
                   base::text("$expert-overlap-chunks 1, or a capacity in training and in evaluation")});
  std::int64_t common = 0, odd = 0;  // odd: in the first layer whose experts do not divide evenly
  for (const auto count : p.model.experts.count) {
    const auto held = count / p.tensor / p.expert_parallel;
    common = std::gcd(common, held);
    if (odd == 0 && held % p.expert_overlap_chunks != 0) odd = held;
  }
  if (odd > 0)
    out.push_back({base::text("$expert-overlap-chunks {} does not divide the {} that a rank has in a layer",
                              p.expert_overlap_chunks, base::counted(odd, "expert")),
                   base::text("$expert-overlap-chunks {}", largest_divisor(common, p.expert_overlap_chunks))});
}

// Whether the replicas can divide the experts of every layer; if not, names the nearest degrees that can.
void expert_parallel_problems(const Plan& p, std::vector<Problem>& out) {
  if (p.expert_overlap_chunks > 1 && !has_experts(p.model))
    out.push_back(
        {base::text("$expert-overlap-chunks {} needs experts, and the model has none", p.expert_overlap_chunks),
         "leave it out, or choose a model with experts (train --help-model)"});
  else if (p.expert_overlap_chunks > 1 && p.expert_parallel == 1)
    out.push_back({base::text("$expert-overlap-chunks {} needs expert parallelism, and $expert-parallel is 1",
                              p.expert_overlap_chunks),
                   base::text("$expert-parallel 2, or leave it out")});
  if (p.expert_parallel == 1) return;
  const auto replicas = p.topology.size(Axis::data);
  if (auto wrong = expert_parallel_obstacle(p.model, replicas, p.tensor, p.expert_parallel); !wrong.empty())
    out.push_back({std::move(wrong),
                   has_experts(p.model)
                       ? expert_parallel_flags(p.model, replicas, p.tensor, p.expert_parallel)
                       : base::text("$expert-parallel 1, or choose a model with experts (train --help-model)")});
  else if (p.expert_overlap_chunks > 1) chunk_problems(p, out);
  if (has_experts(p.model) && p.reduction == Reduction::fast)
    out.push_back({base::text("$reduction fast lets the library choose the order of sums, but $expert-parallel adds "
                              "experts' gradients in "
                              "the order of their micro-batches"),
                   base::text("$reduction ordered, or $expert-parallel 1")});
}

// Pipeline parallelism: whether ranks, schedule and items of the model allow the stages.
void stage_problems(const Plan& p, std::vector<Problem>& out) {
  const int world = p.topology.world();
  if (world % p.pipeline != 0)
    out.push_back({base::text("$pipeline-parallel {} does not divide {}", p.pipeline, base::counted(world, "rank")),
                   base::text("$pipeline-parallel {}, or {} ranks", largest_divisor(world, p.pipeline),
                              (world / (p.pipeline * p.tensor) + 1) * p.pipeline * p.tensor)});
  else if (p.topology.size(Axis::pipe) != p.pipeline && world % (p.pipeline * p.tensor) == 0)
    out.push_back({base::text("the topology has {} stages, but $pipeline-parallel is {}", p.topology.size(Axis::pipe),
                              p.pipeline),
                   base::text("$pipeline-parallel {}", p.topology.size(Axis::pipe))});
  schedule_problems(p, out);
  if (p.pipeline == 1 && p.partition != ParallelLayout().partition) {
    out.push_back(
        {base::text("$partition {} says where stages begin, and $pipeline-parallel is 1", base::one_line(p.partition)),
         base::text("$pipeline-parallel {}, or leave the partition out", std::max(2, listed_parts(p.partition)))});
    return;
  }
  const auto items = item_count(p.model), parts = std::int64_t{p.pipeline} * p.virtual_stages;
  if (parts > items) {
    const auto chunks = items / p.pipeline;  // as many as each stage could have
    const bool in_chunks = p.virtual_stages > 1;
    out.push_back({base::text("$pipeline-parallel {}{}: more {} than the model has items, {} (embedding, {}, head)",
                              p.pipeline, in_chunks ? base::text(" with $virtual-stages {}", p.virtual_stages) : "",
                              in_chunks ? "virtual stages" : "stages", items, base::counted(p.model.layers, "layer")),
                   in_chunks && chunks >= 1 ? base::text("$virtual-stages {}", chunks)
                                            : base::text("$pipeline-parallel {} at most", items)});
    return;
  }
  try {
    stages_of(p);
  } catch (const base::UsageError& e) {
    out.push_back({e.what(), e.hint()});
  }
}

// What kinds of blocks may declare and no store can do yet. Of layers that are alike, the first is checked.
void flat_group_problems(const Plan& p, std::vector<Problem>& out) {
  const auto fine = fine_model(p.model);
  if (fine->flat_groups) return;
  const auto before = out.size();
  for (const auto& segment : segments(p.model))
    for (const auto& flat_group : segment.kind->flat_groups(segment.model, segment.first)) {
      if (flat_group.group != Axes{Axis::data})
        out.push_back(
            {fmt::format("flat group '{}' adds up its gradients over '{}': that can be done over 'data' alone",
                         flat_group.name, name_of(flat_group.group)),
             "declare the flat group without a group"});
      for (const auto& parameter : flat_group.parameters) {
        if (!parameter.sharded) continue;
        const auto& [dim, axis] = *parameter.sharded;
        if (axis != Axis::tensor)
          out.push_back({fmt::format("dim {} of '{}' is sharded over '{}': that can be done over 'tensor' alone", dim,
                                     parameter.name, name_of(axis)),
                         "declare the parameter without a sharded dim"});
      }
    }
  fine->flat_groups = out.size() == before;
}

void extent_problems(const Plan& p, std::vector<Problem>& out) {
  const auto size = extent(p);
  if (size.memory > largest_extent)
    out.push_back({fmt::format("a rank would need up to {:.2g} bytes: that is too large to be planned", size.memory),
                   base::text("a smaller model, $micro-batch or $sequence")});
  if (size.traffic > largest_extent)
    out.push_back(
        {fmt::format("a rank would send up to {:.2g} bytes in a step: that is too large to be planned", size.traffic),
         base::text("a smaller $global-batch, a larger $micro-batch, or a larger $local-accumulation")});
}

}  // namespace

bool draws_for_gates(const ModelConfig& m) {
  const auto& e = m.experts;
  const auto bounded = [&](const std::string& factor) { return factor != "none" && factor != "same"; };
  return has_experts(m) &&
         (e.noise != GateNoise::none ||
          (e.overflow == Overflow::random && (bounded(e.capacity_factor) || bounded(e.evaluation_capacity_factor))));
}

std::vector<Problem> decision_problems(const Plan& p, const LanesOf& lanes, Kernels kernels) {
  auto out = range_problems(p);
  const bool in_range = out.empty(), of_replicas = p.topology.nests({Axis::pipe, Axis::data, Axis::tensor});
  const auto of_model = model_problems(p.model);
  const auto length = of_model.empty() ? length_problem(p.model, p.sequence) : LengthProblem();
  const bool has_model = of_model.empty() && length.message.empty();
  const auto whole = [&] {
    auto model = p.model;
    model.lanes = 1;
    return model;
  };
  const bool only_lanes = !of_model.empty() && p.model.lanes > 1 && problems(whole()).empty();
  for (const auto& text : of_model)
    out.push_back({"model: " + text,
                   only_lanes ? lanes_hint(p.model) : "change the model: train --help-model describes its keys"});
  if (p.sequence > p.model.context)
    out.push_back({base::text("$sequence {} is longer than the model's context {}", p.sequence, p.model.context),
                   base::text("$sequence {} at most", p.model.context)});
  else if (!length.message.empty()) out.push_back({length.message, length.hint});
  if (!of_replicas)
    out.push_back({fmt::format("the topology has {} ranks but its data axis {}, with {} tensor ranks inside and {} "
                               "stages around",
                               p.topology.world(), p.topology.size(Axis::data), p.topology.size(Axis::tensor),
                               p.topology.size(Axis::pipe)),
                   "use only the axes 'pipe', inside it 'data', and inside that 'tensor'"});
  if (has_model && kernels == Kernels::ours) gpu_problems(p, out);
  master_problems(p, out);
  adapter_layout_problems(p, out);
  encoder_layout_problems(p, out);
  dropout_problems(p, out);
  gate_problems(p, out);
  if (in_range && of_replicas && has_model) {
    stage_problems(p, out);
    tensor_problems(p, lanes, out);
    expert_parallel_problems(p, out);
    zero_group_problems(p, out);
    reduction_node_problems(p, out);
    for (auto& wrong : expert_node_problems(p)) out.push_back(std::move(wrong));
    for (auto& wrong : expert_buffer_problems(p)) out.push_back(std::move(wrong));
  }
  if (ranges::global_batch.holds(p.global_batch) && ranges::micro_batch.holds(p.micro_batch) &&
      ranges::local_accumulation.holds(p.local_accumulation)) {
    batch_problems(p, out);
    ramp_problems(p, out);
    if (in_range) offload_problems(p, out), activation_offload_problems(p, out);
  }
  if (out.empty()) flat_group_problems(p, out);
  if (out.empty()) extent_problems(p, out);
  return out;
}

}  // namespace trainyard::plan

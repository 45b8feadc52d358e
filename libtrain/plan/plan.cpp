// Decisions and predictions of a plan.
#include "libtrain/plan/plan.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/cost/matrix_updates.h"
#include "libtrain/plan/disk_use.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/grid/reduction_nodes.h"
#include "libtrain/plan/grid/zero_groups.h"
#include "libtrain/plan/schedule/partition.h"
#include "libtrain/plan/schedule/schedule.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace trainyard::plan {

namespace {

// "one-stage": what plans of version 1 have always said if there are no pipeline stages.
constexpr const char* one_stage = "one-stage";

}  // namespace

std::vector<Recompute> recompute_of_layers(const Plan& p) {
  std::vector<Recompute> out(base::size(p.model.layers), Recompute::none);
  for (int stage = 0; stage < p.pipeline; ++stage)
    for (const auto& segment : segments(p.part_of_stage(stage), p.recompute))
      if (segment.part == Part::layers) std::fill_n(out.begin() + segment.first, segment.times, segment.recompute);
  return out;
}

int expert_node_of(const ParallelLayout& layout) {
  return layout.expert_parallel % layout.expert_ranks_per_node == 0 ? layout.expert_ranks_per_node : 1;
}

int zero_group_of(const ParallelLayout& layout, int data_ranks) {
  const bool groups = layout.zero == 3 && layout.expert_parallel == 1 && layout.zero_group > 1 &&
                      layout.zero_group < data_ranks && data_ranks % layout.zero_group == 0;
  return groups ? layout.zero_group : 1;
}

int reduction_node_of(const ParallelLayout& layout, int data_ranks) {
  const int node = layout.reduction_ranks_per_node, group = zero_group_of(layout, data_ranks);
  const bool nodes = layout.reduction == Reduction::ordered && layout.expert_parallel == 1 && node > 1 &&
                     node < data_ranks && data_ranks % node == 0 && (group % node == 0 || node % group == 0);
  return nodes ? node : 1;
}

Topology topology_of(const ParallelLayout& layout, int ranks) {
  const auto each = std::int64_t{layout.tensor} * layout.pipeline;
  if (ranks % each != 0) return replicas_of(ranks, ranks % layout.tensor == 0 ? layout.tensor : 1);
  if (ranks / each % layout.expert_parallel != 0) return replicas_of(ranks, layout.tensor, layout.pipeline);
  const auto replicas = static_cast<int>(ranks / each);
  return replicas_of(ranks, layout.tensor, layout.pipeline, layout.expert_parallel, expert_node_of(layout))
      .with_zero_groups(zero_group_of(layout, replicas))
      .with_reduction_nodes(reduction_node_of(layout, replicas));
}

std::vector<base::Field> fields_of(Plan& p) {
  base::FieldVisitor v;
  v("gradient-dtype", p.gradient_dtype, "Parallelism and precision", "of gradients: f32, bf16", dtype_names());
  v("device", p.device, "Parallelism and precision",
    "where the ranks compute: cpu or cuda (other scratch, the save snapshot on the host)", device_names());
  v("device-memory", p.device_memory, "Parallelism and precision", "bytes of one rank; 0: not stated",
    {0, base::most_bytes});
  auto all = v.take();
  for (auto& f : fields_of(static_cast<ParallelLayout&>(p))) all.push_back(std::move(f));
  auto& schedule = base::field_named(all, "pipeline-schedule", "a plan");
  schedule.kind = base::FieldKind::text;  // the hyphens stay in a file
  schedule.get = [&p] { return schedule_text(p); };
  schedule.set = [set = std::move(schedule.set)](const std::string& text, const std::string& spelled) {
    set(text == one_stage ? "1f1b" : text, spelled);
  };
  // The order of keys in a plan's file. Settings that are not named here come last, as they are described.
  std::vector<base::Field> ordered;
  for (const char* name : {"zero",
                           "micro-batch",
                           "global-batch",
                           "sequence",
                           "fold",
                           "pipeline-schedule",
                           "reduction",
                           "recompute",
                           "dtype",
                           "gradient-dtype",
                           "tensor",
                           "sequence-parallel",
                           "expert-parallel",
                           "expert-node",
                           "expert-chunks",
                           "expert-buffer",
                           "pipeline",
                           "virtual-stages",
                           "partition",
                           "layer-slots",
                           "threads",
                           "device",
                           "device-memory"})
    ordered.push_back(base::field_named(all, name, "a plan"));
  for (const auto& f : all)
    if (std::none_of(ordered.begin(), ordered.end(), [&](const auto& g) { return g.name == f.name; }))
      ordered.push_back(f);
  return ordered;
}

Stages stages_of(const Plan& p) {
  const PartitionOf whole{p.model, p.lengths(), p.recompute};
  return {p.pipeline, partition(p.partition, whole, p.pipeline * p.virtual_stages)};
}

std::vector<int> slots_of_stage(const Plan& p, int stage) {
  if (p.breadth_first(p.batch())) return {static_cast<int>(p.batch().places())};
  if (p.pipeline == 1 && p.pipeline_schedule != PipelineSchedule::gpipe) return {1};
  return most_in_flight(p.pipeline_schedule, p.batch().places(), p.pipeline, p.virtual_stages, stage);
}

std::vector<Action> actions(const Plan& p, int rank) { return actions(p, rank, p.batch()); }

Pipeline pipeline_of(const Plan& p, int stage, const BatchPlan& batch) {
  const auto items = part_of(p.model, p.stages, stage).chunks.front();
  return {p.pipeline_schedule, p.pipeline, p.virtual_stages, p.breadth_first(batch) ? items.end - items.begin : 0};
}

std::vector<Action> actions(const Plan& p, int rank, const BatchPlan& batch) {
  const int stage = p.stage_of(rank);
  return step_actions(batch, p.topology.reduction_position(rank), pipeline_of(p, stage, batch), stage);
}

namespace {

bool updates_matrices(const Plan& p) {
  return optimizer_kind(p.optimizer).collective == OptimizerKind::Collective::whole_matrices;
}

// Of a step, without the exchange of whole matrices.
std::vector<SizedCalls> calls_of_alike_ranks(const Plan& p, int rank) {
  const int reduction_position = p.topology.reduction_position(rank), stage = p.stage_of(rank);
  const auto part = p.part_of_stage(stage);
  const auto micros = p.batch().micros_of(reduction_position);
  auto calls = step_calls(part, p.states(), p.reduction, reduction_position);
  const auto add = [&](std::vector<SizedCalls> more) {
    for (auto& c : more) calls.push_back(std::move(c));
  };
  add(tensor_calls(part, p.micro(), Pass::train, p.recompute, micros));
  add(expert_calls(part, p.micro(), Pass::train, p.recompute, p.batch().lockstep_micros()));
  add(pipe_calls(p.model, p.stages, stage, p.micro(), Pass::train, micros));
  add(flat_group_of_stages_calls(part, p.stages, stage, p.states()));
  return calls;
}

}  // namespace

std::vector<SizedCalls> all_step_calls(const Plan& p, int rank) {
  auto calls = calls_of_alike_ranks(p, rank);
  if (!updates_matrices(p)) return calls;
  const FlatGroupTable table(p.part_of_stage(p.stage_of(rank)), p.topology);
  for (auto& c : MatrixUpdates(table, p.topology).calls(rank)) calls.push_back(std::move(c));
  return calls;
}

std::vector<Traffic> traffic_of_step(const Plan& plan, int rank, std::int64_t sequences) {
  auto p = plan;
  p.global_batch = sequences, p.batch_ramp = {};
  return added_up(all_step_calls(p, rank));
}

std::vector<Traffic> all_validation_traffic(const Plan& p, int rank, std::int64_t sequences) {
  const auto part = p.part_of_stage(p.stage_of(rank));
  const auto rounds = validation_rounds(p.batch(), sequences);
  auto traffic = validation_traffic(part, p.states(), sequences);
  auto calls = tensor_calls(part, p.micro(), Pass::evaluate, {}, rounds);
  for (auto more : {expert_calls(part, p.micro(), Pass::evaluate, {}, rounds),
                    pipe_calls(p.model, p.stages, p.stage_of(rank), p.micro(), Pass::evaluate, rounds)})
    calls.insert(calls.end(), more.begin(), more.end());
  for (auto& t : added_up(calls)) traffic.push_back(std::move(t));
  return traffic;
}

namespace {

// Traffic by runs of replicas that are alike in the last accumulation step: some work then, others are idle. If ranks
// share experts, it also matters how many of the ranks whose tokens a rank gets have a micro-batch then. This changes
// at the same places in every group that shares the experts, so equal runs of many groups become one entry. Ranks of
// zero groups whose own shard is in their group shard send it to one rank less. Nodes that reduce one after the other
// send different bytes.
std::vector<RankTraffic> traffic_of_stage(const Plan& p, int stage) {
  const int replicas = p.topology.size(Axis::data), alike = replicas / p.topology.size(Axis::expert);
  std::vector<std::int64_t> sources(base::size(alike),
                                    0);  // accumulation steps of all replicas whose tokens a rank gets
  const auto batch = p.batch();
  for (int r = 0; r < replicas; ++r) base::at(sources, r % alike) += batch.accumulation_steps_of(r);
  // The first rank of a replica's ranks in the stage.
  const int first_of_stage = p.topology.rank_of({{Axis::pipe, stage}}), of_replica = p.topology.stride(Axis::data);
  const auto rank_of = [&](int replica) { return first_of_stage + replica * of_replica; };
  const ZeroGroups groups(p.topology);
  const ReductionNodes nodes(p.topology);
  const auto kind_of_node = [&](int node) {  // the first node, and the last ones of full and of uneven steps
    const int last = nodes.node_of(batch.contributors(batch.accumulation_steps() - 1) - 1);
    return (node == 0 ? 1 : 0) + (node + 1 == nodes.nodes() ? 2 : 0) + (node < last ? 0 : node == last ? 4 : 8);
  };
  const auto kind_of = [&](int replica) {
    const int reduction_position = p.topology.reduction_position_of_replica(replica);
    return std::tuple(batch.accumulation_steps_of(reduction_position), base::at(sources, reduction_position % alike),
                      groups.any() && groups.keeps_own(replica),
                      nodes.any() ? kind_of_node(nodes.node_of(replica)) : 0);
  };
  std::vector<RankTraffic> out;
  std::map<std::pair<std::tuple<std::int64_t, std::int64_t, bool, int>, int>, std::size_t>
      known;  // by kind and length of a run
  for (int first = 0, end = 0; first < replicas; first = end) {
    const auto kind = kind_of(first);
    for (end = first + 1; end < replicas && kind_of(end) == kind; ++end) {}
    const auto [place, is_new] = known.try_emplace({kind, end - first}, out.size());
    if (!is_new) {
      auto& before = out[place->second];
      const int apart = rank_of(first) - (before.first_rank + (before.runs - 1) * before.stride);
      if (before.runs == 1 || before.stride == apart) {
        before.stride = apart, ++before.runs;
        continue;
      }
      place->second = out.size();
    }
    const int last = rank_of(end - 1) + of_replica - 1;
    out.push_back({rank_of(first), last, 1, 0, added_up(calls_of_alike_ranks(p, rank_of(first)))});
  }
  return out;
}

// The same with the exchange of whole matrices, of which each rank sends what its own are. Neighbours that send the
// same are one entry.
std::vector<RankTraffic> with_matrices(const Plan& p, int stage, const std::vector<RankTraffic>& alike) {
  const FlatGroupTable table(p.part_of_stage(stage), p.topology);
  const MatrixUpdates updates(table, p.topology);
  std::vector<RankTraffic> out;
  for (int rank = 0; rank < p.topology.world(); ++rank)
    for (const auto& entry : alike) {
      if (!entry.has(rank)) continue;
      auto operations = entry.operations;
      for (auto& t : added_up(updates.calls(rank))) {
        const auto same = std::find_if(operations.begin(), operations.end(), [&](const Traffic& o) {
          return o.group == t.group && o.operation == t.operation;
        });
        if (same == operations.end()) operations.push_back(std::move(t));
        else same->calls += t.calls, same->bytes += t.bytes;
      }
      if (!out.empty() && out.back().last_rank + 1 == rank && out.back().operations == operations)
        out.back().last_rank = rank;
      else out.push_back({rank, rank, 1, 0, std::move(operations)});
      break;
    }
  return out;
}

}  // namespace

void predict(Plan& p) {
  TRAINYARD_ASSERT(
      p.model.lanes > 0 && p.zero >= ranges::zero.low && p.zero <= ranges::zero.high &&
          p.topology.size(Axis::tensor) == p.tensor && p.topology.size(Axis::pipe) == p.pipeline,
      "a plan is predicted that decision_problems refuses: {} lanes (default_lanes decides them), ZeRO {}, "
      "{} x {} tensor and pipeline ranks in its topology, {} x {} in its layout",
      p.model.lanes, p.zero, p.topology.size(Axis::tensor), p.topology.size(Axis::pipe), p.tensor, p.pipeline);
  TRAINYARD_ASSERT(p.micro_batch > 0 && p.global_batch >= p.micro_batch && p.sequence > 0 && p.local_accumulation > 0 &&
                       p.virtual_stages > 0 && p.expert_parallel > 0 && p.expert_overlap_chunks > 0 && p.threads > 0,
                   "a plan is predicted that decision_problems refuses: global batch {}, micro-batch {}, sequence {}, "
                   "local accumulation {}, {} virtual stages, {} expert-parallel ranks, {} overlap chunks, {} threads",
                   p.global_batch, p.micro_batch, p.sequence, p.local_accumulation, p.virtual_stages, p.expert_parallel,
                   p.expert_overlap_chunks, p.threads);
  const bool whole = p.device == base::DeviceKind::cuda && p.model.lanes == 1;
  TRAINYARD_ASSERT(
      whole || p.model.lanes % p.tensor == 0,
      "a plan is predicted that decision_problems refuses: {} tensor-parallel ranks do not divide {} lanes", p.tensor,
      p.model.lanes);
  p.stages = stages_of(p);
  p.parameters = parameter_count(p.model), p.active_parameters = active_parameter_count(p.model);
  p.stage_memory.clear();
  for (int stage = 0; stage < p.pipeline; ++stage) p.stage_memory.push_back(memory_of_stage(p, stage));
  p.memory = *std::max_element(p.stage_memory.begin(), p.stage_memory.end(),
                               [](const auto& a, const auto& b) { return a.total() < b.total(); });
  p.flops = 0;
  for (int stage = 0; stage < p.pipeline; ++stage)
    p.flops += step_flops(p.part_of_stage(stage), p.global_batch, p.lengths(), p.recompute);
  p.disk = most_disk_bytes(p);
  p.link = most_link_bytes(p);
  p.traffic.clear();
  for (int stage = 0; stage < p.pipeline; ++stage) {
    auto of_stage = traffic_of_stage(p, stage);
    if (updates_matrices(p) && p.topology.world() > p.pipeline) of_stage = with_matrices(p, stage, of_stage);
    for (auto& ranks : of_stage) p.traffic.push_back(std::move(ranks));
  }
}

std::string lengths_text(const Plan& p) {
  return p.source_sequence > 0 ? fmt::format("{} source and {} target", p.source_sequence, p.sequence)
                               : fmt::format("{}", p.sequence);
}

std::string schedule_text(const Plan& p) {
  if (p.pipeline == 1 && p.pipeline_schedule == PipelineSchedule::one_f_one_b) return one_stage;
  for (const auto& [name, value] : schedule_names())
    if (value == p.pipeline_schedule) return name;
  return {};
}

std::string ramp_text(const Plan& p, std::int64_t completed, std::int64_t samples) {
  const auto batch = p.batch();
  const auto& r = batch.ramp;
  if (!r.grows()) return {};
  return fmt::format(
      "global batch {} to {} by {} over {}, {} from step {} on; memory, traffic and FLOPs are those of {}",
      base::count_text(r.start), base::count_text(p.global_batch), base::count_text(r.increment),
      base::counted(r.length, "sample"), base::count_text(p.global_batch),
      base::count_text(BatchSizes({p.global_batch, r}, completed, samples).steps_before_end() + 1),
      base::count_text(p.global_batch));
}

std::string sharing_text(const Plan& p) {
  std::string out;
  const auto replicas = base::counted(p.topology.size(Axis::data), "replica");
  if (p.pipeline > 1)
    out += fmt::format(" in {} pipeline stages{} ({}) of {}", p.pipeline,
                       p.virtual_stages > 1 ? fmt::format(" of {} virtual stages", p.virtual_stages) : "",
                       schedule_text(p), replicas);
  else if (p.tensor > 1) out += " in " + replicas;
  if (p.tensor > 1)
    out += fmt::format(" of {} tensor-parallel ranks ({}{})", p.tensor, base::counted(p.model.lanes, "lane"),
                       p.sequence_parallel ? ", sequence parallelism" : "");
  if (p.expert_parallel > 1) out += fmt::format(", experts over {} ranks", p.expert_parallel);
  if (p.expert_ranks_per_node > 1) out += fmt::format(" ({} a node)", p.expert_ranks_per_node);
  if (p.expert_overlap_chunks > 1) out += fmt::format(" in {} overlap chunks", p.expert_overlap_chunks);
  if (const ZeroGroups groups(p.topology); groups.any())
    out += fmt::format(", weights sharded in {} groups of {} replicas", groups.copies(), groups.ranks());
  if (const ReductionNodes nodes(p.topology); nodes.any())
    out += fmt::format(", gradients reduced over {} nodes of {} replicas", nodes.nodes(), nodes.ranks());
  return out;
}

}  // namespace trainyard::plan

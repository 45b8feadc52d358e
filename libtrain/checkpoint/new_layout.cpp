// Checks the ranks of a new layout, and records what follows from them.
#include "libtrain/checkpoint/new_layout.h"

#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/checkpoint/saved_shards.h"
#include "libtrain/plan/blocks/sharing.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/model_file/expert_problems.h"
#include "libtrain/plan/model_file/field_json.h"
#include "libtrain/plan/parallel_layout.h"
#include "libtrain/plan/schedule/partition.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

namespace trainyard::checkpoint {

namespace {

// Refuses more ranks than weights: the ranks beyond could not hold anything, whatever the layout.
void require_as_many_weights(const Manifest& source, int data, std::int64_t of_each) {
  std::int64_t weights = 0;
  for (const auto& p : source.parameters) weights += p.count;
  if (const auto ranks = data * of_each; ranks > weights)
    throw base::UsageError(fmt::format("{} ranks are more than the {} weights of the model: most would hold nothing",
                                       base::count_text(ranks), base::count_text(weights)),
                           base::text("$data-parallel {} at most", weights / of_each));
}

int size_of_axis(const Manifest& m, plan::Axis axis) {
  for (const auto& a : m.axes)
    if (a.axis == plan::name_of(axis)) return a.size;
  return 1;
}

void require_items(const plan::ModelConfig& model, int stages, bool given) {
  const auto items = plan::item_count(model);
  if (stages <= items) return;
  const auto have = fmt::format("its embedding, {} and its head", base::counted(model.layers, "layer"));
  throw base::UsageError(
      given ? base::text("$pipeline-parallel {} is more than the {} items of the model: {}", stages, items, have)
            : fmt::format("the checkpoint is of {} pipeline stages, more than the {} items of its model: {}", stages,
                          items, have),
      base::text("$pipeline-parallel {} at most", items));
}

// The sequence length of the run if it is known, else the model's context.
std::int64_t sequence_of(const RunState& state) {
  const auto& identity = state.identity;
  const auto found = identity.is_object() ? identity.find("sequence") : identity.end();
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (found == identity.end() || !found->is_number_integer() || *found < 1 || *found > most) return state.model.context;
  return found->get<std::int64_t>();
}

plan::Stages stages_of_layout(const Manifest& source, const NewLayout& layout, int stages) {
  if (layout.stages) return *layout.stages;
  if (stages == 1 && !layout.partition.empty())
    throw base::UsageError(base::text("$partition says where pipeline stages begin, but there is only one stage"),
                           base::text("$pipeline-parallel {}, or leave the partition out",
                                      std::max(2, plan::listed_parts(layout.partition))));
  if (stages == 1) return {};
  if (layout.partition.empty() && stages == size_of_axis(source, plan::Axis::pipe))
    if (auto kept = stages_of(source)) return *std::move(kept);
  const auto& state = source.state;
  return {stages, plan::partition(layout.partition.empty() ? "flops" : layout.partition,
                                  {state.model, sequence_of(state), plan::Recompute::none}, stages)};
}

int experts_of_layout(const Manifest& source, const NewLayout& layout, int data, int tensor) {
  const auto& model = source.state.model;
  if (layout.experts == 0) {
    const auto kept = expert_parts_of(source);
    return plan::expert_parallel_obstacle(model, data, tensor, kept).empty() ? kept : 1;
  }
  if (const auto wrong = plan::expert_parallel_obstacle(model, data, tensor, layout.experts); !wrong.empty())
    throw base::UsageError(wrong, plan::has_experts(model)
                                      ? plan::expert_parallel_flags(model, data, tensor, layout.experts)
                                      : "leave it out");
  return layout.experts;
}

// Returns whether the record of a plan names these stages. The record may hold anything.
bool says(const nlohmann::json& plan, const plan::Stages& stages) {
  const auto value = [&](const char* key, const nlohmann::json& otherwise) { return plan.value(key, otherwise); };
  if (value("pipeline", 1) != nlohmann::json(stages.stages)) return false;
  return stages.stages == 1 || value("stage_boundaries", nullptr) == nlohmann::json(stages.boundaries);
}

// Records the stages as train does. For one stage it records only the boundaries.
void record_stages(nlohmann::json& plan, const NewLayout& layout, const plan::Stages& stages, std::int64_t items) {
  const auto set_or_leave_out = [&](const char* key, const nlohmann::json& value, bool usual) {
    if (usual) plan.erase(key);
    else plan[key] = value;
  };
  plan.erase("offload");  // each start decides where states lie
  if (!says(plan, stages)) {
    const int chunks = stages.chunks();
    set_or_leave_out("pipeline", stages.stages, stages.stages == 1);
    set_or_leave_out("virtual_stages", chunks, chunks == 1);
    plan["stage_boundaries"] = stages.stages == 1 ? plan::Boundaries{0, items} : stages.boundaries;
    plan.erase("partition");
    auto schedule = plan.find("schedule");
    if (schedule != plan.end() && stages.stages == 1) *schedule = "one-stage";
    else if (schedule != plan.end() && (chunks > 1 || *schedule == "one-stage" || *schedule == "interleaved"))
      *schedule = chunks > 1 ? "interleaved" : "1f1b";
    if (stages.stages > 1 && plan.value("schedule", nlohmann::json()) != "gpipe") plan.erase("accumulation_order");
  }
  if (!layout.partition.empty()) set_or_leave_out("partition", layout.partition, layout.partition == "flops");
}

// The warning about lanes; "" where train can go on with the lanes as they are (plan/problems.h).
std::string doubt_of_lanes(const RunState& state, int tensor) {
  const auto lanes = state.model.lanes;
  if (lanes % tensor == 0 || (lanes == 1 && state.device_kind == "cuda")) return {};
  const auto others = plan::Sharing(state.model).nearest(tensor, [&](std::int64_t t) { return lanes % t == 0; });
  const bool weights = state.contents == Contents::model;
  return base::text(
      "{} tensor ranks do not divide the {} of the checkpoint's model: {} it with {}{}, or {} $lanes {}{}", tensor,
      base::counted(lanes, "lane"), weights ? "train --init-from takes" : "train goes on from",
      plan::tensor_flags(others), lanes == 1 ? ", on GPUs as it is" : "", weights ? "with" : "as another run with",
      tensor, weights ? "" : base::text(" $change model"));
}

}  // namespace

LayoutRanks ranks_of_layout(const Manifest& source, const NewLayout& layout) {
  auto tensor = size_of_axis(source, plan::Axis::tensor), pipeline = size_of_axis(source, plan::Axis::pipe);
  const int data = layout.data > 0 ? layout.data : source.ranks / tensor / pipeline;
  if (layout.tensor > 0) tensor = layout.tensor;
  if (layout.pipeline > 0) pipeline = layout.pipeline;
  if (layout.stages) pipeline = layout.stages->stages;
  const auto of_each = std::int64_t{tensor} * pipeline;  // ranks of one replica
  if (data * of_each > plan::ranges::ranks.high)
    throw base::UsageError(
        fmt::format("{}{} data-parallel ranks of {} tensor ranks are more than {}",
                    pipeline > 1 ? fmt::format("{} stages of ", pipeline) : "", data, tensor, plan::ranges::ranks.high),
        "fewer of them");
  if (tensor > 1) {
    const plan::Sharing sharing(source.state.model);
    if (const auto wrong = sharing.obstacle(tensor); !wrong.empty())
      throw base::UsageError(
          layout.tensor > 0
              ? wrong
              : fmt::format("the checkpoint has {} tensor ranks, which its model does not allow: {}", tensor, wrong),
          plan::tensor_flags(sharing.nearest(tensor, [](std::int64_t) { return true; })));
  }
  require_items(source.state.model, pipeline, layout.pipeline > 0);
  require_as_many_weights(source, data, of_each);
  const auto experts = experts_of_layout(source, layout, data, tensor);
  return {plan::replicas_of(static_cast<int>(data * of_each), tensor, pipeline).with_experts(experts),
          stages_of_layout(source, layout, pipeline)};
}

std::vector<std::string> doubts_of_layout(const RunState& state, const LayoutRanks& ranks) {
  std::vector<std::string> out;
  if (const auto empty = SavedShards(state.model, ranks.topology, ranks.stages).empty_ranks(); empty > 0)
    out.push_back(fmt::format("{} of {} ranks hold nothing: the model is too small for so many",
                              base::count_text(empty), base::count_text(ranks.topology.world())));
  if (auto doubt = doubt_of_lanes(state, ranks.topology.size(plan::Axis::tensor)); !doubt.empty())
    out.push_back(std::move(doubt));
  return out;
}

RunState state_of_layout(const RunState& source, const NewLayout& layout, const LayoutRanks& ranks) {
  auto state = source;
  state.dtype = layout.dtype.value_or(source.dtype);
  state.contents = layout.contents.value_or(source.contents);
  if (state.contents == Contents::all && source.contents == Contents::model)
    throw base::UsageError("a checkpoint of the weights alone has no states of an optimizer to write",
                           "leave the contents as they are");
  auto& plan = state.plan;
  if (layout.plan) plan = *layout.plan;
  const auto tensor = ranks.topology.size(plan::Axis::tensor), experts = ranks.topology.size(plan::Axis::expert);
  const bool same_ranks = plan.contains("ranks") && plan["ranks"] == ranks.topology.world() &&
                          (plan.contains("tensor") ? plan["tensor"] == tensor : tensor == 1) &&
                          (plan.contains("expert_parallel") ? plan["expert_parallel"] == experts : experts == 1) &&
                          says(plan, ranks.stages);
  plan["ranks"] = ranks.topology.world();
  record_stages(plan, layout, ranks.stages, plan::item_count(state.model));
  if (layout.zero) plan["zero"] = *layout.zero;
  if (plan.contains("dtype")) plan["dtype"] = base::name_of(state.dtype);
  if (plan.contains("tensor") || tensor > 1) plan["tensor"] = tensor;
  if (tensor == 1 && plan.contains("sequence_parallel")) plan["sequence_parallel"] = false;
  if (experts > 1) plan["expert_parallel"] = experts;
  else plan.erase("expert_parallel");
  if (!layout.plan && (!same_ranks || layout.zero)) plan.erase("zero_group");
  if (!layout.plan && !same_ranks) plan.erase("reduction_ranks_per_node");
  plan::ParallelLayout usual;
  for (const auto& f : plan::fields_of(usual))
    if (!layout.plan && !same_ranks && f.has(base::FieldTrait::of_held_experts)) plan.erase(plan::key_of(f));
  if (plan.contains("topology")) {
    plan["topology"] = nlohmann::json::array();
    for (const auto& a : ranks.topology.axes())
      plan["topology"].push_back({{"axis", plan::name_of(a.axis)}, {"size", a.size}});
  }
  if (!layout.plan && (!same_ranks || layout.zero || state.dtype != source.dtype))
    plan.erase("predicted");  // predicted for another layout
  return state;
}

}  // namespace trainyard::checkpoint

// Judges ranks, and writes down what follows from them.
#include "libtrain/checkpoint/new_cut.h"

#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/checkpoint/pieces.h"
#include "libtrain/plan/ranges.h"
#include "libtrain/plan/sharing.h"

#include <fmt/format.h>

#include <cstdint>

namespace trainyard::checkpoint {

namespace {

// A rank beyond as many cannot hold anything, whatever the layout.
void require_as_many_weights(const Manifest& source, int data, int tensor) {
  std::int64_t weights = 0;
  for (const auto& p : source.parameters) weights += p.count;
  if (const auto ranks = std::int64_t{data} * tensor; ranks > weights)
    throw base::UsageError(fmt::format("{} ranks are more than the {} weights of the model: most would hold nothing",
                                       base::count_text(ranks), base::count_text(weights)),
                           fmt::format("--data-parallel {} at most", weights / tensor));
}

// "" where train can go on with the lanes as they are (plan/problems.h).
std::string doubt_of_lanes(const RunState& state, int tensor) {
  const auto lanes = state.model.lanes;
  if (lanes % tensor == 0 || (lanes == 1 && state.device_kind == "cuda")) return {};
  const auto others = plan::Sharing(state.model).nearest(tensor, [&](std::int64_t t) { return lanes % t == 0; });
  const bool weights = state.contents == Contents::model;
  return fmt::format(
      "{} tensor ranks do not divide the {} of the checkpoint's model: {} it with {}{}, or {} --lanes {}{}", tensor,
      base::counted(lanes, "lane"), weights ? "train --init-from takes" : "train goes on from",
      plan::tensor_flags(others), lanes == 1 ? ", on GPUs as it is" : "", weights ? "with" : "as another run with",
      tensor, weights ? "" : " --change model");
}

}  // namespace

plan::Topology topology_of_cut(const Manifest& source, const NewCut& cut) {
  int tensor = 1;
  for (const auto& a : source.axes)
    if (a.axis == plan::name_of(plan::Axis::tensor)) tensor = a.size;
  const int data = cut.data > 0 ? cut.data : source.ranks / tensor;
  if (cut.tensor > 0) tensor = cut.tensor;
  if (std::int64_t{data} * tensor > plan::ranges::ranks.high)
    throw base::UsageError(fmt::format("{} data-parallel ranks of {} tensor ranks are more than {}", data, tensor,
                                       plan::ranges::ranks.high),
                           "fewer of them");
  if (tensor > 1) {
    const plan::Sharing sharing(source.state.model);
    if (const auto wrong = sharing.obstacle(tensor); !wrong.empty())
      throw base::UsageError(
          cut.tensor > 0
              ? wrong
              : fmt::format("the checkpoint is of {} tensor ranks, which its model cannot have: {}", tensor, wrong),
          plan::tensor_flags(sharing.nearest(tensor, [](std::int64_t) { return true; })));
  }
  require_as_many_weights(source, data, tensor);
  return plan::replicas_of(data * tensor, tensor);
}

std::vector<std::string> doubts_of_cut(const RunState& state, const plan::Topology& ranks) {
  std::vector<std::string> out;
  if (const auto empty = Pieces(state.model, ranks).empty_ranks(); empty > 0)
    out.push_back(fmt::format("{} of {} ranks hold nothing: the model is too small for so many",
                              base::count_text(empty), base::count_text(ranks.world())));
  if (auto doubt = doubt_of_lanes(state, ranks.size(plan::Axis::tensor)); !doubt.empty())
    out.push_back(std::move(doubt));
  return out;
}

RunState state_of_cut(const RunState& source, const NewCut& cut, const plan::Topology& ranks) {
  auto state = source;
  state.dtype = cut.dtype.value_or(source.dtype);
  state.contents = cut.contents.value_or(source.contents);
  if (state.contents == Contents::all && source.contents == Contents::model)
    throw base::UsageError("a checkpoint of the weights alone has no states of an optimizer to write",
                           "leave the contents as they are");
  auto& plan = state.plan;
  if (cut.plan) plan = *cut.plan;
  const auto tensor = ranks.size(plan::Axis::tensor);
  const bool same_ranks = plan.contains("ranks") && plan["ranks"] == ranks.world() &&
                          (plan.contains("tensor") ? plan["tensor"] == tensor : tensor == 1);
  plan["ranks"] = ranks.world();
  if (cut.zero) plan["zero"] = *cut.zero;
  if (plan.contains("dtype")) plan["dtype"] = base::name_of(state.dtype);
  if (plan.contains("tensor") || tensor > 1) plan["tensor"] = tensor;
  if (tensor == 1 && plan.contains("sequence_parallel")) plan["sequence_parallel"] = false;
  if (plan.contains("topology")) {
    plan["topology"] = nlohmann::json::array();
    for (const auto& [axis, size] : ranks.axes())
      plan["topology"].push_back({{"axis", plan::name_of(axis)}, {"size", size}});
  }
  if (!cut.plan && (!same_ranks || cut.zero || state.dtype != source.dtype)) plan.erase("predicted");  // of another cut
  return state;
}

}  // namespace trainyard::checkpoint

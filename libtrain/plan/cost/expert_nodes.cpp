// What a hierarchical all-to-all sends and needs, and when it is impossible.
#include "libtrain/plan/cost/expert_nodes.h"

#include "libtrain/base/aligned.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

constexpr std::string_view all_to_all = "all_to_all";

// The node size nearest to `asked` that so many ranks can have; 1: there is none.
int nearest_node(int ranks, int asked) {
  int best = 1;
  for (int node = 2; node < ranks; ++node)
    if (ranks % node == 0 && (best == 1 || std::abs(node - asked) < std::abs(best - asked))) best = node;
  return best;
}

}  // namespace

std::vector<SizedCalls> expert_group_calls(const ExpertShare& share, const GroupCall& call, std::int64_t times) {
  const auto in = [&](Axis axis, int ranks) {
    return SizedCalls{name_of(axis),     ranks, call.operation, call.type, call.bytes, times * call.calls,
                      times * call.calls};
  };
  if (share.node == 1 || call.operation != all_to_all) return {in(Axis::expert, share.across())};
  return {in(Axis::expert_inner, share.node), in(Axis::expert_outer, share.across() / share.node)};
}

std::int64_t expert_hop_bytes(const ModelPart& part, const MicroShape& s, Pass pass) {
  if (part.experts.node == 1) return 0;
  auto most = pass == Pass::train ? expert_hop_bytes(part, s, Pass::evaluate) : 0;
  for (const auto& segment : segments(part))
    for (const auto& call : segment.kind->expert_calls(segment.model, s, pass, Recompute::none))
      if (call.operation == all_to_all) most = std::max(most, call.bytes);
  return most;
}

std::int64_t expert_staging_bytes(const ModelPart& part, const MicroShape& s, Pass pass) {
  return 2 * base::aligned(expert_hop_bytes(part, s, pass));
}

std::vector<Problem> expert_node_problems(const Plan& p) {
  if (p.expert_ranks_per_node == 1) return {};
  const auto given = fmt::format("--expert-ranks-per-node {}", p.expert_ranks_per_node);
  if (!has_experts(p.model))
    return {{given + " needs experts, and the model has none",
             "leave it out, or choose a model with experts (train --help-model)"}};
  if (p.expert_parallel == 1)
    return {{given + " needs expert parallelism, and --expert-parallel is 1",
             fmt::format("leave it out, or --expert-parallel {}", 2 * p.expert_ranks_per_node)}};
  const auto nearest = nearest_node(p.expert_parallel, p.expert_ranks_per_node);
  const auto hint =
      nearest == 1 ? std::string("leave it out") : fmt::format("--expert-ranks-per-node {}, or leave it out", nearest);
  if (p.expert_ranks_per_node == p.expert_parallel)
    return {
        {fmt::format(
             "{} is all expert-parallel ranks (--expert-parallel {}): a hierarchical all-to-all needs several nodes",
             given, p.expert_parallel),
         hint}};
  if (p.expert_parallel % p.expert_ranks_per_node != 0)
    return {{fmt::format("{} does not divide the {} expert-parallel ranks (--expert-parallel {})", given,
                         p.expert_parallel, p.expert_parallel),
             hint}};
  return {};
}

}  // namespace trainyard::plan

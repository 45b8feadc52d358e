// Checks of nodes and of the capacity buffer.
#include "libtrain/plan/expert_checks.h"

#include "libtrain/base/setting_text.h"
#include "libtrain/plan/dispatch_rounds.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace trainyard::plan {

namespace {

// The node size nearest to `asked` that so many ranks can have; 1: there is none.
int nearest_node(int ranks, int asked) {
  int best = 1;
  for (int node = 2; node < ranks; ++node)
    if (ranks % node == 0 && (best == 1 || std::abs(node - asked) < std::abs(best - asked))) best = node;
  return best;
}

// Without a message: it can.
Problem buffer_problem(const Plan& p) {
  const bool rounds = crosses_in_rounds(p);
  if (rounds && static_cast<double>(p.expert_parallel) * static_cast<double>(most_round_rows(p)) > 0x7fffffff)
    return {fmt::format("{} ranks that send one another {} tokens in a dispatch round exceed 2147483647, the most that "
                        "can be counted",
                        p.expert_parallel, most_round_rows(p)),
            base::text("a smaller $micro-batch or $expert-parallel")};
  if (p.expert_capacity_buffer == 0) return {};
  if (!has_experts(p.model))
    return {base::text("$expert-capacity-buffer {} needs experts, and the model has none", p.expert_capacity_buffer),
            "leave it out, or choose a model with experts (train --help-model)"};
  const auto given = base::text("$expert-capacity-buffer {}", p.expert_capacity_buffer);
  if (p.expert_parallel == 1)
    return {given + base::text(" needs expert parallelism, and $expert-parallel is 1"),
            base::text("leave it out, or $expert-parallel 2")};
  if (p.tensor > 1)
    return {fmt::format(
                "{} is for dispatch rounds; with {} tensor-parallel ranks experts have places for all tokens instead",
                given, p.tensor),
            base::text("leave it out, or $tensor-parallel 1")};
  if (!rounds)
    return {
        given +
            " is for experts without a capacity, and the experts of this model have one, in training and in evaluation",
        "leave it out, or choose a model whose experts-capacity-factor is none"};
  const auto tokens = p.micro_batch * p.sequence;
  if (p.expert_capacity_buffer < tokens)
    return {
        base::text("{} is less than one expert may get: a micro-batch has {} tokens ($micro-batch {} of $sequence {})",
                   given, tokens, p.micro_batch, p.sequence),
        base::text("$expert-capacity-buffer {}, or a smaller $micro-batch", tokens)};
  std::int64_t most = 0;
  for (const auto count : p.model.experts.count)
    most = std::max(most, std::min(p.model.experts.top_k, count / p.expert_parallel) * tokens);
  if (p.expert_capacity_buffer > most)
    return {fmt::format("{} is more than a rank can have for another rank, {}", given, most),
            base::text("$expert-capacity-buffer {} at most", most)};
  return {};
}

}  // namespace

std::vector<Problem> expert_node_problems(const Plan& p) {
  if (p.expert_ranks_per_node == 1) return {};
  const auto given = base::text("$expert-ranks-per-node {}", p.expert_ranks_per_node);
  if (!has_experts(p.model))
    return {{given + " needs experts, and the model has none",
             "leave it out, or choose a model with experts (train --help-model)"}};
  if (p.expert_parallel == 1)
    return {{given + base::text(" needs expert parallelism, and $expert-parallel is 1"),
             base::text("leave it out, or $expert-parallel {}", 2 * p.expert_ranks_per_node)}};
  const auto nearest = nearest_node(p.expert_parallel, p.expert_ranks_per_node);
  const auto hint =
      nearest == 1 ? std::string("leave it out") : base::text("$expert-ranks-per-node {}, or leave it out", nearest);
  if (p.expert_ranks_per_node == p.expert_parallel)
    return {{base::text(
                 "{} is all expert-parallel ranks ($expert-parallel {}): a hierarchical all-to-all needs several nodes",
                 given, p.expert_parallel),
             hint}};
  if (p.expert_parallel % p.expert_ranks_per_node != 0)
    return {{base::text("{} does not divide the {} expert-parallel ranks ($expert-parallel {})", given,
                        p.expert_parallel, p.expert_parallel),
             hint}};
  return {};
}

std::vector<Problem> expert_buffer_problems(const Plan& p) {
  auto wrong = buffer_problem(p);
  if (wrong.message.empty()) return {};
  return {std::move(wrong)};
}

}  // namespace trainyard::plan

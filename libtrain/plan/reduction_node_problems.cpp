// What --reduction-ranks-per-node does not go with.
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/decision_problems.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

// A divisor of the ranks as a hint: the largest below the one that was asked for, else the next above it.
std::string other_nodes(int data_ranks, int asked) {
  for (int n = std::min(asked, data_ranks) - 1; n > 1; --n)
    if (data_ranks % n == 0) return base::text("$reduction-ranks-per-node {}, or leave it out", n);
  for (int n = asked + 1; n < data_ranks; ++n)
    if (data_ranks % n == 0) return base::text("$reduction-ranks-per-node {}, or leave it out", n);
  return "leave it out: all ranks then reduce at once";
}

}  // namespace

void reduction_node_problems(const Plan& p, std::vector<Problem>& out) {
  const int node = p.reduction_ranks_per_node;
  if (node == 1) return;
  const auto report = [&](std::string message, std::string hint) {
    out.push_back({std::move(message), std::move(hint)});
  };
  if (node == p.of_a_node)
    return report(base::text("$reduction-ranks-per-node node: how many ranks a node has is not known here"),
                  base::text("$reduction-ranks-per-node 8, if a node has 8 data-parallel ranks"));
  if (p.reduction == Reduction::fast)
    report(base::text("$reduction-ranks-per-node {} orders the sums of $reduction ordered; with $reduction fast the "
                      "library decides",
                      node),
           base::text("$reduction ordered, or leave $reduction-ranks-per-node out"));
  const int replicas = p.topology.size(Axis::data);
  if (replicas % node != 0)
    report(base::text("$reduction-ranks-per-node {} does not divide the {}", node,
                      base::counted(replicas, "data-parallel rank")),
           other_nodes(replicas, node));
  if (p.expert_parallel > 1)
    report(base::text("$reduction-ranks-per-node {} with $expert-parallel {}: ranks with the same experts add first, "
                      "and they are in several nodes",
                      node, p.expert_parallel),
           base::text("$expert-parallel 1, or leave $reduction-ranks-per-node out"));
  if (const int group = zero_group_of(p, replicas); replicas % node == 0 && group % node != 0 && node % group != 0)
    report(base::text("$reduction-ranks-per-node {} and $zero-group {}: neither divides the other", node, group),
           base::text("$reduction-ranks-per-node {0}, or $zero-group {1}", group, node));
}

}  // namespace trainyard::plan

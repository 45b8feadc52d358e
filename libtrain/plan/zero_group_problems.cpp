// What --zero-group does not go with.
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/decision_problems.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

// A divisor of the ranks as a hint: the largest below the one that was asked for, else the next above it.
std::string other_groups(int data_ranks, int asked) {
  for (int n = std::min(asked, data_ranks) - 1; n > 1; --n)
    if (data_ranks % n == 0) return base::text("$zero-group {}, or leave it out", n);
  for (int n = asked + 1; n < data_ranks; ++n)
    if (data_ranks % n == 0) return base::text("$zero-group {}, or leave it out", n);
  return "leave it out: all ranks are then one group";
}

}  // namespace

void zero_group_problems(const Plan& p, std::vector<Problem>& out) {
  if (p.zero_group == 0) return;
  const auto report = [&](std::string message, std::string hint) {
    out.push_back({std::move(message), std::move(hint)});
  };
  if (p.zero_group == p.of_a_node)
    return report(base::text("$zero-group node: how many ranks a node has is not known here"),
                  base::text("$zero-group 8, if a node has 8 data-parallel ranks"));
  if (p.zero != 3)
    report(base::text("$zero-group {} says among which ranks the weights are sharded, and $zero {} shards no weights",
                      p.zero_group, p.zero),
           base::text("$zero 3, or leave $zero-group out"));
  if (p.zero_group == 1)
    report(base::text("$zero-group 1: every rank would hold all weights, and gather copies of them"),
           base::text("$zero 2, or a $zero-group of several ranks"));
  const int replicas = p.topology.size(Axis::data);
  if (replicas % p.zero_group != 0)
    report(base::text("$zero-group {} does not divide the {}", p.zero_group,
                      base::counted(replicas, "data-parallel rank")),
           other_groups(replicas, p.zero_group));
  if (p.expert_parallel > 1)
    report(base::text("$zero-group {} with $expert-parallel {}: experts are sharded over other ranks than the rest",
                      p.zero_group, p.expert_parallel),
           base::text("$expert-parallel 1, or leave $zero-group out"));
}

}  // namespace trainyard::plan

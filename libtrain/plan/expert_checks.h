// What is wrong with a plan's expert parallelism beyond its degree, each with what would work.
#pragma once

#include "libtrain/plan/plan.h"
#include "libtrain/plan/problem.h"

#include <vector>

namespace trainyard::plan {

// Why the plan cannot have its ranks of a node, and its rows of a dispatch round. At most one problem each.
std::vector<Problem> expert_node_problems(const Plan& plan);
std::vector<Problem> expert_buffer_problems(const Plan& plan);

}  // namespace trainyard::plan

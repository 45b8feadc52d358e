// Schedule problems: why the passes of pipeline stages and micro-batches cannot have the order that a plan decides.
#pragma once

#include "libtrain/plan/plan.h"
#include "libtrain/plan/problem.h"

#include <vector>

namespace trainyard::plan {

// Adds a problem for each pair of decisions that exclude one another: the schedule, virtual stages, the number of
// stages, recomputation and the accumulation order.
void schedule_problems(const Plan& plan, std::vector<Problem>& out);

}  // namespace trainyard::plan

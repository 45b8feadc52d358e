// Memory of a rank that evaluates: weights and what forward passes need, nothing of gradients or an optimizer.
#pragma once

#include "libtrain/plan/plan.h"

namespace trainyard::plan {

// Equal on every rank of a stage: parameters, gathered flat groups, the staging of tensor ranks and of experts,
// workspace, and of each chunk the activations of one micro-batch; behind another stage also the place where
// activations arrive. They read decisions, and plan.stages.
MemoryBytes evaluation_memory(const Plan& plan, int stage);
// Of the stage that needs most.
MemoryBytes largest_evaluation_memory(const Plan& plan);

}  // namespace trainyard::plan

// Memory of a rank that evaluates: weights and what forward passes need, without gradients and optimizer.
#pragma once

#include "libtrain/plan/plan.h"

namespace trainyard::plan {

// Equal on every rank of a stage: parameters, gathered flat groups, staging of tensor-parallel ranks and of experts,
// and workspace. Each chunk adds the activations of one micro-batch. A stage that another stage precedes also has the
// place where activations arrive. These functions read decisions, and plan.stages.
MemoryBytes evaluation_memory(const Plan& plan, int stage);
// The same for the stage that needs most.
MemoryBytes largest_evaluation_memory(const Plan& plan);

}  // namespace trainyard::plan

// Memory of a rank that evaluates: weights and what forward passes need, without gradients and optimizer.
#pragma once

#include "libtrain/plan/plan.h"

namespace trainyard::plan {

// kept: a rank holds its weights, as the ZeRO stage says. streamed: it holds none, and reads each flat group into a
// slot when a pass needs it (plan/streamed_reads.h). On a GPU it reads into host memory, in the category of save
// snapshots, which evaluations do not make.
enum class Residence { kept, streamed };

// Equal on every rank of a stage: parameters, gathered flat groups, staging of tensor-parallel ranks and of experts,
// and workspace. Each chunk adds the activations of one micro-batch. A stage that another stage precedes also has the
// place where activations arrive. These functions read decisions, and plan.stages.
MemoryBytes evaluation_memory(const Plan& plan, int stage, Residence weights = Residence::kept);
// The same for the stage that needs most.
MemoryBytes largest_evaluation_memory(const Plan& plan, Residence weights = Residence::kept);

}  // namespace trainyard::plan

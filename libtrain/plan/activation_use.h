// What a rank has elsewhere of the inputs of its layers, and what a step reads and writes of them
// (plan/cost/activation_offload.h).
#pragma once

#include "libtrain/base/storage.h"
#include "libtrain/plan/cost/activation_offload.h"
#include "libtrain/plan/plan.h"

#include <cstdint>

namespace trainyard::plan {

ActivationOffload activation_offload_of_stage(const Plan& plan, int stage);

// Of a rank of the stage with that position in the reduction order (Topology::reduction_position), in a step of
// `sequences`. The rank at 0 has the most micro-batches.
base::StorageTotals activations_of_step(const Plan& plan, int stage, std::int64_t sequences,
                                        int reduction_position = 0);

// The same, of what a GPU copies from and to its host.
LinkBytes activation_link_of_step(const Plan& plan, int stage, std::int64_t sequences, int reduction_position = 0);

}  // namespace trainyard::plan

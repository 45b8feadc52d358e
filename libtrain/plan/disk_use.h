// What a rank keeps on disk, reads from there and writes to there, and what a GPU copies from and to its host
// (plan/cost/offload.h).
#pragma once

#include "libtrain/base/storage.h"
#include "libtrain/plan/cost/offload.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

OffloadPlan offload_of_stage(const Plan& plan, int stage);

// The bytes of each extent of a rank's storage, in their order: states, then inputs of layers.
std::vector<std::int64_t> disk_extents(const Plan& plan, int stage);
std::int64_t disk_space(const Plan& plan, int stage);  // of these, in whole pages

// Of a rank of the stage, in a step of `sequences`: reads of weights for its passes, the update, and inputs of layers,
// of which the rank at position 0 of the reduction order (Topology::reduction_position) has the most.
base::StorageTotals disk_of_step(const Plan& plan, int stage, std::int64_t sequences, int reduction_position = 0);

// The same, of the link between a GPU and its host.
LinkBytes link_of_step(const Plan& plan, int stage, std::int64_t sequences);

// Plan::disk and Plan::link, for plan::predict.
DiskBytes most_disk_bytes(const Plan& plan);
LinkBytes most_link_bytes(const Plan& plan);

}  // namespace trainyard::plan

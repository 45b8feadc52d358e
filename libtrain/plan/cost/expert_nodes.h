// Hierarchical all-to-all among ranks with different experts: rows go to the neighbours of a node first, then from node
// to node. So a rank sends fewer and larger messages.
#pragma once

#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/cost/sized_calls.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Collectives among the ranks that hold different experts. A hierarchical all-to-all is two all-to-alls of as many
// bytes: one among the ranks of a node, and one among the ranks with the same number in each node. Every other
// collective is among all ranks.
std::vector<SizedCalls> expert_group_calls(const ExpertShare& share, const GroupCall& call, std::int64_t times);

// Bytes of the largest all-to-all of a part's layers, in training with the validations of a run. Two buffers hold it on
// its way (model/expert_collectives.h). 0: no all-to-all is hierarchical.
std::int64_t expert_hop_bytes(const ModelPart& part, const MicroShape& shape, Pass pass);
std::int64_t expert_staging_bytes(const ModelPart& part, const MicroShape& shape, Pass pass);  // of both buffers

}  // namespace trainyard::plan

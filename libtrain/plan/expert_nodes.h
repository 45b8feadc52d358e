// Ranks that share experts, by nodes: rows go to the neighbours of a node first, then from node to node, so that a rank
// sends fewer and larger messages.
#pragma once

#include "libtrain/plan/block_kind.h"
#include "libtrain/plan/problems.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Calls among the ranks that share experts. An all-to-all of whole nodes is two of as many bytes, among the ranks of a
// node and among those of all nodes that have one place in theirs; all else is among all of them.
std::vector<SizedCalls> expert_group_calls(const ExpertShare& share, const GroupCall& call, std::int64_t times);

// Bytes of the largest all-to-all of a part's layers, which two buffers hold on its way (model/expert_collectives.h),
// in training with the validations of a run; 0: none goes in two hops.
std::int64_t expert_hop_bytes(const ModelPart& part, const MicroShape& shape, Pass pass);
std::int64_t expert_staging_bytes(const ModelPart& part, const MicroShape& shape, Pass pass);  // of both buffers

// Why the plan cannot have its nodes, with what would work.
std::vector<Problem> expert_node_problems(const Plan& plan);

}  // namespace trainyard::plan

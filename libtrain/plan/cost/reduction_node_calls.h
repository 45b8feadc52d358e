// What a hierarchical ordered reduction (plan/grid/reduction_nodes.h) stages, calls and sends.
#pragma once

#include "libtrain/plan/cost/sized_calls.h"
#include "libtrain/plan/cost/states.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// The reductions of a step: calls inside the node, of which a node without contributions has none, and exchanges
// between nodes. Empty without such nodes. `data_rank`: along the data axis, which is the reduction position.
std::vector<SizedCalls> reduction_node_calls(const FlatGroupTable& table, const StateShape& shape, int data_rank,
                                             std::int64_t most = segment_bytes);

}  // namespace trainyard::plan

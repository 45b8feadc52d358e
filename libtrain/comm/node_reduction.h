// The hierarchical ordered reduction: among the ranks of a node first, then from node to node.
#pragma once

#include "libtrain/comm/communicator.h"

#include <cstdint>

namespace trainyard::comm {

// The ranks are N nodes of n ranks each. Rank r of all ranks is rank r % n of `inside`, the ranks of its node. It is
// rank r / n of `across`, the ranks with its place in every node. Elements of a shard that travel together: `piece`.
struct ReductionHops {
  Communicator& inside;
  Communicator& across;
  std::int64_t piece;
};

// Does what ordered_reduce_scatter_range over all ranks does, to the same bits: a sum from left to right over ranks can
// be continued, so each node adds its contributions to the partial sum that came from the node before. Of each node the
// rank at the owner's place does so, so all ranks work equally. The last node with a contribution sends the sum to its
// owner. If the round is `next`, the owner first sends the sum so far to the first node.
//
// A piece is in every node at another time, so that all nodes work at once: node k is at piece t - k of all pieces when
// node 0 is at piece t. In between is one exchange of all nodes.
//
// `staging` holds n + 2 pieces. The reduction has no reduction_positions. `inside` has calls "ordered_reduce_scatter",
// `across` has calls "partial_sums".
void ordered_reduce_scatter_range(const ReductionHops& hops, tensor::Exec& exec, const OrderedReduction& reduction,
                                  std::int64_t first, std::int64_t count);

}  // namespace trainyard::comm

// ReductionNodes: the hierarchical ordered reduction, in which ranks of a node add their gradients first and one of
// them sends the sum to the next node.
#pragma once

#include "libtrain/plan/grid/topology.h"

#include <algorithm>
#include <cstdint>

namespace trainyard::plan {

// A sum from left to right over ranks can be continued, so node after node adds its contributions to what came from the
// node before. That is done in pieces of shards, so that all nodes work at the same time (comm/node_reduction.h).
// Ranks are numbered along the data axis.
class ReductionNodes {
 public:
  explicit ReductionNodes(const Topology& topology)
      : ranks_(topology.size(Axis::reduction_inner)), nodes_(topology.size(Axis::reduction_outer)) {}
  bool any() const { return ranks_ > 1; }
  int ranks() const { return ranks_; }  // of a node; 1: there are no nodes
  int nodes() const { return nodes_; }
  int node_of(int rank) const { return rank / ranks_; }
  int all() const { return ranks_ * nodes_; }

 private:
  int ranks_, nodes_;
};

// How a range of a shard is divided: pieces of `most` elements, and a last one that may be smaller.
struct ReductionPieces {
  std::int64_t count, most;
  std::int64_t pieces() const { return (count + most - 1) / most; }
  std::int64_t largest() const { return std::min(count, most); }
};

// Elements of staging for one reduction with nodes: a piece of each rank of the node, and two of sums.
inline std::int64_t node_staging(const ReductionNodes& nodes, const ReductionPieces& pieces) {
  return (nodes.ranks() + 2) * pieces.largest();
}

}  // namespace trainyard::plan

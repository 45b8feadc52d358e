// ExpertShare: which of a layer's experts a rank holds.
#pragma once

#include "libtrain/plan/grid/topology.h"

namespace trainyard::plan {

// The experts that a rank holds: of each layer's experts, the `part`-th of `parts` equal runs of neighbours.
// Tensor-parallel ranks of a replica have all its rows, so they distribute the experts in `tensor` runs. Data-parallel
// ranks divide each of these runs into across() runs again.
struct ExpertShare {
  int parts = 1, part = 0;
  int tensor = 1;
  int chunks = 1;  // runs of a rank's experts: rows of one run travel while the rank computes another
  int node = 1;    // of across() ranks: neighbours that rows go to first (plan/cost/expert_nodes.h)
  int across() const { return parts / tensor; }     // data-parallel ranks with different experts (Axis::expert)
  bool is_partial() const { return parts > 1; }     // do other ranks hold other experts
  bool sends_rows() const { return across() > 1; }  // do rows go to other data-parallel ranks
  auto operator<=>(const ExpertShare&) const = default;
};

// The experts that a rank holds.
ExpertShare expert_share(const Topology& topology, int rank);

}  // namespace trainyard::plan

// The experts that a rank of a topology holds.
#include "libtrain/plan/grid/expert_share.h"

namespace trainyard::plan {

ExpertShare expert_share(const Topology& topology, int rank) {
  const int tensor = topology.size(Axis::tensor), across = topology.size(Axis::expert);
  return {tensor * across, topology.coordinate(rank, Axis::tensor) * across + topology.coordinate(rank, Axis::expert),
          tensor, 1, topology.size(Axis::expert_inner)};
}

}  // namespace trainyard::plan

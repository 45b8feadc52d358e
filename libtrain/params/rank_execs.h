// RankExecs: how one rank computes and communicates side by side.
#pragma once

#include "libtrain/comm/world.h"
#include "libtrain/params/transfers.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::params {

// Parts of a store, collectives of a block and links between stages refer to it, so it outlives them. `communication`
// runs the collectives of all groups: a worker Exec, or a GPU's stream. If the world has one rank it is `compute`
// itself: nothing is sent, and the OpenMP team of `compute` adds.
struct RankExecs {
  comm::World& world;
  tensor::Exec& compute;
  tensor::Exec& communication;
  double wait_seconds = 0;  // seconds that `compute` waited for collectives since the last read
  // The queue of transfers of whole flat groups between the ranks of their groups: gathers of weights, reductions of
  // gradients.
  Transfers transfers{communication, world.topology.size(plan::Axis::tensor) > 1 ? Transfers::Issue::between
                                                                                 : Transfers::Issue::at_once};

  void join(const tensor::Event& event);  // `compute` waits for the event; the time counts as exposed communication
};

}  // namespace trainyard::params

// World: the ranks of a run as the engine sees them: communicators, the thread they run on, and how the job ends when a peer is lost.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/tensor/exec.h"

#include <functional>
#include <memory>
#include <string>

namespace trainyard::engine {

// Both communicators span all ranks. `data` carries gradients and weights; `control` carries agreement and metrics. All calls of either
// are issued on `exchange`. With one rank `exchange` is the compute Exec of the trainer (null here).
struct World {
  int rank = 0, size = 1;
  std::string kind = "solo";                       // solo, threads, mpi
  std::unique_ptr<comm::Communicator> data, control;
  std::unique_ptr<comm::Communicator> results;     // on a GPU: carries the losses and norms of steps between devices; null: `control` does
  int local_rank = 0;                     // among the ranks of this node: picks the GPU
  std::unique_ptr<tensor::Exec> exchange;
};

World solo_world();
// One communicator for each purpose from a factory (group name -> communicator), and a communication thread when there are several ranks.
World make_world(std::string kind, int rank, int size, const std::function<std::unique_ptr<comm::Communicator>(std::string)>& factory);

}  // namespace trainyard::engine

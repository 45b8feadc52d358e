// World: the ranks of a run as the engine sees them: their communicators, the thread they run on, and how the job ends
// when a peer is lost.
#pragma once

#include "libtrain/comm/neighbours.h"
#include "libtrain/comm/watchdog.h"
#include "libtrain/comm/world.h"
#include "libtrain/plan/plan.h"
#include "libtrain/tensor/exec.h"

#include <functional>
#include <memory>
#include <string>

namespace trainyard::engine {

// Groups carry gradients and weights; `control` carries agreement and metrics. All calls of all of them are issued on
// `communication`. With one rank `communication` is the compute Exec of the trainer (null here).
struct World : comm::World {
  using comm::World::World;
  std::unique_ptr<comm::Communicator>
      results;  // on a GPU: carries the losses and norms of steps between devices; null: `control` does
  std::unique_ptr<tensor::Exec> communication;
  bool stages_on_device = false;  // NCCL carries what goes between GPUs
  comm::GroupFactory queues;      // communicators that a thread each may call; empty: `between` makes such
  std::unique_ptr<comm::Neighbours> neighbours;  // between pipeline stages (join_neighbours); null: there are none
  // How the process ends the whole job; both set by who launched ranks that are processes, and neither returns there.
  // fail: this rank alone met an error, and the others may wait for it; called while everything still stands that
  // communication under way works on. on_hang: the watchdog's verdict.
  std::function<void(const std::exception& error)> fail;
  std::function<void(const std::string& sentence, comm::Decided where)> on_hang;
};

// Waits until nothing is under way on either, in destructors of what owns memory that it works on. Every rank has
// issued the same, or fails and is not waited for (World::fail, or a world of threads that is poisoned). A failure has
// been thrown to who waited for the work; it is not repeated.
void drain(tensor::Exec& communication, tensor::Exec& compute) noexcept;

World solo_world();
// Ranks as plan::replicas_of has them; their communicators from a factory, and a communication thread when there are
// several. `size` is a multiple of `tensor` * `stages` * `experts`, that of `node`.
World make_world(std::string kind, int rank, const plan::Topology& topology, comm::GroupFactory between);
World make_world(std::string kind, int rank, int size, comm::GroupFactory between, int tensor = 1, int stages = 1,
                 int experts = 1, int node = 1);

// Is the world cut as the plan is? Who made it looked at the same settings.
void require_layout(const World& world, const plan::Plan& plan);

// The queues to the stages before and behind, where the topology has stages: once the world has the communicators that
// it will keep. In a ring with several chunks of each stage. Collective.
void join_neighbours(World& world, int chunks, base::Device device = {});

}  // namespace trainyard::engine

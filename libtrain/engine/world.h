// World: the ranks of a run as the engine sees them: their communicators, the thread that issues the calls, and how the
// job ends when a peer is lost.
#pragma once

#include "libtrain/comm/neighbours.h"
#include "libtrain/comm/watchdog.h"
#include "libtrain/comm/world.h"
#include "libtrain/plan/plan.h"
#include "libtrain/tensor/exec.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::engine {

// Groups carry gradients and weights; `control` carries agreements and metrics. The calls of all communicators are
// issued on `communication`. With one rank a training issues them on its compute Exec instead.
struct World : comm::World {
  using comm::World::World;
  // On a GPU: carries the losses and norms of steps between devices. null: `control` does.
  std::unique_ptr<comm::Communicator> results;
  std::unique_ptr<tensor::Exec> communication;  // never null in a world that make_world made
  bool stages_on_device = false;                // NCCL carries messages between pipeline stages
  // Makes communicators that may each be called by a thread of their own. Empty: `between` makes such.
  comm::GroupFactory queues;
  std::unique_ptr<comm::Neighbours> neighbours;  // between pipeline stages (join_neighbours); null: there are none
  // How the process ends the whole job. The launcher of ranks that are processes sets both; neither returns there.
  // fail: this rank alone met an error, and the others may wait for it. It is called while everything still exists that
  // communication under way uses. on_hang: gets the verdict of the watchdog.
  std::function<void(const std::exception& error)> fail;
  std::function<void(const std::string& sentence, comm::Decided where)> on_hang;
};

// Waits until no work is under way on either Exec. For destructors of objects whose memory such work uses. Every rank
// has issued the same work, or fails and is not waited for (World::fail, or a poisoned world of threads). A failure was
// thrown to the caller that waited for the work; it is not repeated.
void drain(tensor::Exec& communication, tensor::Exec& compute) noexcept;

World solo_world();
// Makes a world: ranks in the order of plan::replicas_of, communicators from a factory, and a communication thread if
// there are several ranks. With `size` instead of a topology all ranks are data-parallel.
World make_world(std::string kind, int rank, const plan::Topology& topology, comm::GroupFactory between);
World make_world(std::string kind, int rank, int size, comm::GroupFactory between);

// UsageError if the world has not the parallel layout of the plan. plan::topology_of(config, size) is the topology of a
// world for the settings `config`.
void require_layout(const World& world, const plan::Plan& plan);

// Makes the queues to the stages before and after this one, if the topology has stages. Call it once the world has its
// final communicators. With several virtual stages (`chunks`) in each stage the queues form a ring. A training also
// joins the stages that share flat parameter groups (`sharing`: plan::sharing_stages). Collective.
void join_neighbours(World& world, int chunks, base::Device device = {}, const std::vector<int>& sharing = {});

}  // namespace trainyard::engine

// World: the ranks that work together, as one of them sees them: who it is, a communicator over all, and one for each
// group.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/plan/topology.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::comm {

class World {
 public:
  World() : World("solo", 0, plan::Topology(), {}) {}  // one rank
  // Collective. `between` is asked for "control", then for the group of this rank along each of `groups`, in that order
  // on every rank, which is named as its axes ("data"). A group of one rank is solo: nobody is asked, nothing leaves
  // the rank.
  World(std::string kind, int rank, plan::Topology topology, GroupFactory between,
        const std::vector<plan::Axes>& groups = {});

  int rank = 0, size = 1;
  int local_rank = 0;  // among the ranks of this node: picks the GPU
  std::string kind;    // solo, threads, mpi; what a measurement calls its backend
  plan::Topology topology;
  int coordinate(plan::Axis axis) const { return topology.coordinate(rank, axis); }
  int turn() const { return topology.turn(rank); }
  std::unique_ptr<Communicator> control;  // all ranks, host memory: carries decisions and times
  GroupFactory between;                   // more communicators over some of the ranks
  std::unique_ptr<Communicator>
      stages;  // those stages that hold a flat group together (plan/stages.h); null: not this rank

  // The ranks that differ from this one along `axes` alone, which it was made with.
  Communicator& group(plan::Axes axes) const;
  // All of them, in the order in which they were made, then that of stages.
  std::vector<Communicator*> groups() const;
  // Each becomes what `make` makes of it, in that order: collective where `make` is.
  void replace_groups(const std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>& make);

 private:
  std::vector<std::pair<plan::Axes, std::unique_ptr<Communicator>>> groups_;
};

}  // namespace trainyard::comm

// World: the ranks that work together, as one of them sees them: its number, a communicator over all ranks, and one for
// each of its groups.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/plan/grid/topology.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::comm {

class World {
 public:
  World() : World("solo", 0, plan::Topology(), {}) {}  // one rank
  // Collective. Asks `between` for "control", then for the group of this rank along each of `groups`, in that order on
  // every rank. The name of a group is its axes ("data"). A group of one rank is solo: `between` is not asked, and
  // nothing leaves the rank.
  World(std::string kind, int rank, plan::Topology topology, GroupFactory between,
        const std::vector<plan::Axes>& groups = {});

  int rank = 0, size = 1;
  int local_rank = 0;  // among the ranks of this node: picks the GPU
  std::string kind;    // solo, threads or mpi; a measurement reports it as its backend
  plan::Topology topology;
  int coordinate(plan::Axis axis) const { return topology.coordinate(rank, axis); }
  int reduction_position() const { return topology.reduction_position(rank); }
  std::unique_ptr<Communicator> control;  // all ranks, host memory: carries decisions and times
  GroupFactory between;                   // makes more communicators over some of the ranks
  // The pipeline stages that hold flat parameter groups of several stages, ascending (plan/schedule/stages.h), and the
  // ranks that differ from this one in such a stage alone; null: this rank is not one of them.
  std::vector<int> sharing_stages;
  std::unique_ptr<Communicator> stages;

  // The ranks that differ from this one along `axes` alone. The world must have been made with these axes.
  Communicator& group(plan::Axes axes) const;
  // All groups along axes, in the order in which they were made, then `stages`.
  std::vector<Communicator*> groups() const;
  // Replaces each of groups() by what `make` returns for it, in that order. Collective if `make` is.
  void replace_groups(const std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>& make);

 private:
  std::vector<std::pair<plan::Axes, std::unique_ptr<Communicator>>> groups_;
};

}  // namespace trainyard::comm

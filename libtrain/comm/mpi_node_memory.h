// Which ranks of the world are processes of one machine that can look at one another's memory. Only mpi_*.cpp include
// this.
#pragma once

#include "libtrain/comm/mpi_calls.h"
#include "libtrain/comm/node_memory.h"

#include <memory>
#include <string>
#include <vector>

namespace trainyard::comm {

class MpiNode {
 public:
  // Collective over the world: finds the ranks of each machine and lets them try; memory is shared from then on where
  // they can (tensor/shared_memory.h). They cannot where TRAINYARD_SHARED_MEMORY=off for one of them, or where the
  // system keeps processes apart.
  MpiNode(int rank, int size);
  // Collective over `made`, a communicator of these ranks of the world: null on all of them where they are not
  // together.
  std::unique_ptr<NodeMemory> memory(const std::string& group, const std::vector<int>& ranks, MPI_Comm made) const;

 private:
  std::vector<int> first_of_node_;  // by rank of the world: the first rank of its machine; -1: it shares nothing
};

}  // namespace trainyard::comm

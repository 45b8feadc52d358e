// Which ranks of the world are processes of one machine that can read one another's memory. Only mpi_*.cpp include
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
  // Collective over the world. Finds the ranks of each machine and lets them try to read one another's memory. Where
  // all of a machine can, memory is shared from then on (tensor/shared_memory.h). They cannot if
  // TRAINYARD_SHARED_MEMORY=off for one of them, or if the system keeps processes apart.
  MpiNode(int rank, int size);
  // The shared-memory rendezvous of a group. Collective over `made`, a communicator of these ranks of the world. Null
  // on all of them if they do not share memory.
  std::unique_ptr<NodeMemory> memory(const std::string& group, const std::vector<int>& ranks, MPI_Comm made) const;

 private:
  std::vector<int> first_of_node_;  // by rank of the world: the first rank of its machine; -1: the rank shares nothing
};

}  // namespace trainyard::comm

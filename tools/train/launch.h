// Launch: is this process one of several ranks, how many share its node, and how it ends when it fails alone.
#pragma once

#include "libtrain/comm/mpi.h"
#include "libtrain/engine/world.h"

#include <memory>
#include <string>

namespace trainyard::tools {

// Under mpirun or srun (their variables say so) MPI is started; otherwise the process is a world of one and MPI stays out of it.
class Launch {
 public:
  Launch();
  engine::World& world() { return world_; }
  int ranks_on_node() const;
  // A rank that fails alone writes exit/rank-00003.json with its reason, then aborts the job; one rank alone just returns. Without an output there is
  // nowhere to write.
  void fail(const std::string& output, int exit_code, const std::string& reason);

 private:
  std::unique_ptr<comm::MpiRuntime> mpi_;
  engine::World world_;
};

}  // namespace trainyard::tools

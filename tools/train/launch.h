// Launch: is this process one of several ranks, how many share its node, and how it ends when it fails alone.
#pragma once

#include "libtrain/comm/mpi.h"
#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/world.h"
#include "libtrain/plan/plan.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace trainyard::tools {

// Under mpirun or srun (their variables say so) MPI is started; otherwise the process is a world of one and MPI stays
// out of it.
class Launch {
 public:
  Launch();
  engine::World& world() { return world_; }
  // The world cut as all ranks say alike (plan::topology_of). Collective.
  void divide_world(const plan::ParallelLayout& layout);
  int ranks_on_node() const;
  // Collective: what any rank throws here all throw as an AgreedError.
  void on_every_rank(const std::function<void()>& work);
  void require_same(const engine::NamedSettings& mine);  // collective (engine/same_settings.h)
  void reasons_into(const std::string& output) {
    output_ = output;
  }  // the run folder; until then reasons go to stderr alone

  // What this rank alone failed at: its sentence, a reason in exit/rank-00003.json of the run folder, and the end of
  // the whole job with the error's exit code, whatever the other ranks wait for. A world of one gets the code back.
  int fail(const std::exception& error);
  // The verdict of the watchdog; does not return. The rank that decided ends the job, once the others have had time to
  // leave a reason.
  void end_on_hang(const std::string& sentence, comm::Decided where);

 private:
  void make_world(const plan::Topology& topology);
  void claim_the_end(int exit_code);  // of two threads that end the job the first goes on
  void write_reason(int exit_code, const std::string& reason) const;
  std::unique_ptr<comm::MpiRuntime> mpi_;
  engine::World world_;
  std::string output_;
  std::atomic<bool> ending_{false};
};

// What is wrong with the command line of this process; of ranks that were launched together, which know no more than
// each its own yet, one says it for all. Collective with Launch::on_every_rank of those whose command line is right.
int refuse_command_line(const base::UsageError& error);

}  // namespace trainyard::tools

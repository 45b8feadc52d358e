// Launch: whether this process is one of several ranks, how many share its node, and how it ends when it alone fails.
#pragma once

#include "libtrain/comm/mpi.h"
#include "libtrain/comm/watchdog.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/engine/world.h"
#include "libtrain/plan/plan.h"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace trainyard::tools {

// Starts MPI under mpirun or srun, which their variables show. Otherwise the process is a world of one rank without
// MPI.
class Launch {
 public:
  Launch();
  engine::World& world() { return world_; }
  // Divides the world by a parallel layout, which is the same on all ranks (plan::topology_of). Collective.
  void divide_world(const plan::ParallelLayout& layout);
  int ranks_on_node() const;
  // Replaces `node` by the data-parallel ranks of this node: of --zero-group and of --reduction-ranks-per-node.
  // UsageError if there is no such number.
  void find_node_group(plan::ParallelLayout& layout) const;
  // Collective: what any rank throws here, all ranks throw as an AgreedError.
  void on_every_rank(const std::function<void()>& work);
  void require_same(const engine::NamedSettings& mine);  // collective (engine/same_settings.h)
  // Sets the run folder, into which reasons are written. Before this call they go to stderr alone.
  void reasons_into(const std::string& output) { output_ = output; }

  // Reports an error of this rank alone: prints its sentence, and writes the reason to exit/rank-00003.json of the run
  // folder. Then it ends the whole job with the error's exit code, whatever the other ranks wait for. In a world of one
  // it returns the exit code instead.
  int fail(const std::exception& error);
  // Ends the job on a decision of the watchdog; does not return. The rank that decided ends the job, after the others
  // have had time to write a reason.
  void end_on_hang(const std::string& sentence, comm::Decided where);

 private:
  void make_world(const plan::Topology& topology);
  void claim_the_end(int exit_code);  // if two threads end the job, only the first goes on
  void write_reason(int exit_code, const std::string& reason) const;
  std::unique_ptr<comm::MpiRuntime> mpi_;
  engine::World world_;
  std::string output_;
  std::atomic<bool> ending_{false};
};

// Reports a wrong command line of this process and returns the exit code. Of ranks that were launched together, one
// reports for all, although each knows only its own command line so far. Collective with Launch::on_every_rank of the
// ranks whose command line is right.
int refuse_command_line(const base::UsageError& error);

// Prints what a flag such as --help asks for, and returns the exit code. Of ranks that were launched together rank 0
// prints, if all ranks have the flag. Collective with Launch::on_every_rank and Launch::require_same of ranks that have
// not, which name the flags of `showing_flags` as "off".
int show_instead(const std::string& flag, const std::string& text);
inline constexpr std::array showing_flags{"help", "help-model"};

}  // namespace trainyard::tools

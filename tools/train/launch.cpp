// Makes a world of one rank, or of MPI's ranks.
#include "tools/train/launch.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/number_text.h"
#include "libtrain/comm/reason.h"
#include "libtrain/engine/agreement.h"
#include "tools/common/launcher.h"
#include "tools/common/program.h"

#include <unistd.h>

namespace trainyard::tools {

Launch::Launch() {
  if (!launched()) {
    world_ = engine::solo_world();
    return;
  }
  mpi_ = std::make_unique<comm::MpiRuntime>();
  make_world(plan::replicas_of(mpi_->size(), 1));
}

void Launch::make_world(const plan::Topology& topology) {
  world_ = engine::make_world("mpi", mpi_->rank(), topology, mpi_->factory());
  if (topology.size(plan::Axis::pipe) > 1) world_.queues = mpi_->concurrent_factory();
  world_.local_rank = local_rank();
  if (world_.size > 1) world_.fail = [this](const std::exception& error) { fail(error); };
  world_.on_hang = [this](const std::string& sentence, comm::Decided where) { end_on_hang(sentence, where); };
}

void Launch::divide_world(const plan::ParallelLayout& layout) {
  if (world_.size > 1 && (layout.tensor > 1 || layout.pipeline > 1 || layout.expert_parallel > 1 ||
                          layout.zero_group > 1 || layout.reduction_ranks_per_node > 1))
    make_world(plan::topology_of(layout, world_.size));
}

void Launch::find_node_group(plan::ParallelLayout& layout) const {
  const auto replicas = world_.size / (layout.tensor * layout.pipeline);
  const auto of_node = [&](const char* flag) {
    const int here = ranks_on_node();
    if (here % layout.tensor != 0)
      throw base::UsageError(fmt::format("{0} node: the {1} of this node hold no whole number of replicas, each of "
                                         "which has {2} tensor-parallel ranks",
                                         flag, base::counted(here, "rank"), layout.tensor),
                             fmt::format("{} with a number of data-parallel ranks, or leave it out", flag));
    return here / layout.tensor;
  };
  if (layout.zero_group == layout.of_a_node) {
    const int here = of_node("--zero-group");
    if (here == 1 && replicas > 1)
      throw base::UsageError("--zero-group node: a node has one data-parallel rank, which would hold all weights",
                             "--zero 2, or leave --zero-group out");
    layout.zero_group = here >= replicas ? 0 : here;
  }
  if (layout.reduction_ranks_per_node == layout.of_a_node) {
    const int here = of_node("--reduction-ranks-per-node");
    layout.reduction_ranks_per_node = here >= replicas ? 1 : here;
  }
}

int Launch::ranks_on_node() const { return tools::ranks_on_node(world_.size); }

void Launch::on_every_rank(const std::function<void()>& work) {
  engine::on_every_rank(world_, *world_.communication, work);
}

void Launch::require_same(const engine::NamedSettings& mine) {
  engine::require_same(mine, world_, *world_.communication);
}

void Launch::claim_the_end(int exit_code) {
  thread_local bool mine = false;
  if (mine) std::_Exit(exit_code);  // this thread failed again while it ended the job
  if (ending_.exchange(true))
    for (;;) pause();
  mine = true;
}

void Launch::write_reason(int exit_code, const std::string& reason) const {
  if (output_.empty()) return;
  try {
    base::make_folders(output_);
  } catch (const std::exception&) {
    return;  // the reason is already on stderr
  }
  comm::write_reason(output_ + "/exit", world_.rank, exit_code, reason);
}

int Launch::fail(const std::exception& error) {
  if (world_.size == 1) return report("train", error);
  claim_the_end(static_cast<int>(base::error_text_of(error).code));
  const int code = report(fmt::format("train: rank {} on {}", world_.rank, base::host_name()), error);
  write_reason(code, base::error_text_of(error).message);
  mpi_->abort(code);
}

void Launch::end_on_hang(const std::string& sentence, comm::Decided where) {
  constexpr auto code = static_cast<int>(base::ExitCode::peer_hung);
  claim_the_end(code);
  write_reason(code, sentence);
  comm::let_others_write_reasons(where);
  mpi_->abort(code);
}

namespace {

// The ranks that were launched with this one; nullptr if it is alone, or if the ranks cannot find one another.
std::unique_ptr<Launch> launched_ranks() {
  try {
    if (launched()) return std::make_unique<Launch>();
  } catch (const base::EnvironmentError&) {
    // What the command line asks for, or its mistake, is still what is reported.
  }
  return nullptr;
}

}  // namespace

int refuse_command_line(const base::UsageError& error) {
  const auto launch = launched_ranks();
  if (!launch) return report("train", error);
  try {
    launch->on_every_rank([&] { throw base::UsageError(error); });
  } catch (const comm::AgreedError& e) {
    if (launch->world().rank == 0) return report("train", e);
  }
  return static_cast<int>(error.code());
}

int show_instead(const std::string& flag, const std::string& text) {
  const auto launch = tasks() > 1 ? launched_ranks() : nullptr;
  if (launch) try {
      launch->on_every_rank([] {});  // a command line that is wrong on another rank
      launch->require_same({{flag, "on"}});
    } catch (const comm::AgreedError& e) {
      return launch->world().rank == 0 ? report("train", e) : static_cast<int>(e.code());
    }
  if (!launch || launch->world().rank == 0) print(text);
  return static_cast<int>(base::ExitCode::done);
}

}  // namespace trainyard::tools

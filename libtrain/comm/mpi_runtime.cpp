// Starts and ends MPI, and compares the world with what the launcher promised.
#include "libtrain/comm/mpi.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/last_resort.h"
#include "libtrain/base/thread.h"
#include "libtrain/comm/mpi_calls.h"
#include "libtrain/comm/mpi_node_memory.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trainyard::comm {

namespace {

// The last way to end the process, if MPI_Abort has not ended it in time or crashes. It is a signal handler, because
// the job may end for want of a thread or of memory.
volatile std::sig_atomic_t late_code = 1;
char late_step[64] = {};  // empty: srun has not launched this process

extern "C" void leave_late(int) {
  const char* const words[] = {"scancel", late_step, nullptr};
  pid_t child = 0;
  if (late_step[0] != '\0' &&
      posix_spawnp(&child, words[0], nullptr, nullptr, const_cast<char* const*>(words), environ) == 0)
    waitpid(child, nullptr, 0);
  _exit(late_code);
}

void leave_at_last(int exit_code, const std::string& step) {
  late_code = exit_code;
  std::snprintf(late_step, sizeof late_step, "%s", step.c_str());
  struct sigaction action {};
  action.sa_handler = leave_late;
  for (const int number : {SIGALRM, SIGSEGV, SIGBUS, SIGABRT}) sigaction(number, &action, nullptr);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  alarm(5);
}

// Without this memory and these threads, MPI would end the process with exit code 1 from within its start.
void require_what_mpi_needs() {
  constexpr std::size_t bytes = std::size_t{192} << 20;
  constexpr int threads = 4;
  if (base::memory_is_short(bytes))
    throw base::EnvironmentError(fmt::format("out of memory: MPI needs about {} MiB to start", bytes >> 20),
                                 "fewer ranks on a node, or more memory (ulimit -v, --mem of Slurm)");
  base::require_threads(threads);
}

std::atomic<bool> runtime_exists = false;

// The thread level of an MPI that the program has initialized, if it has.
std::optional<int> initialized_level() {
  int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized != 0)
    throw base::UsageError("MPI has been finalized in this process, and cannot start again",
                           "keep one comm::MpiRuntime for as long as the process communicates");
  if (initialized == 0) return {};
  MPI_Query_thread(&level);
  return level;
}

}  // namespace

MpiRuntime::Alone::Alone() {
  if (runtime_exists.exchange(true))
    throw base::UsageError("this process has a comm::MpiRuntime already",
                           "make one, and give its factories to all who need communicators");
}
MpiRuntime::Alone::~Alone() { runtime_exists = false; }

MpiRuntime::MpiRuntime() {
  const auto found = initialized_level();
  adopted_ = found.has_value();
  if (!adopted_) require_what_mpi_needs();
  // Read before MPI starts, because MPI itself may set OMPI_COMM_WORLD_SIZE.
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  const char* job = std::getenv("SLURM_JOB_ID");
  const bool launched_by_srun =
      std::getenv("SLURM_STEP_ID") != nullptr && std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr;
  if (launched_by_srun && job != nullptr) step_ = fmt::format("{}.{}", job, std::getenv("SLURM_STEP_ID"));
  int provided = found.value_or(MPI_THREAD_SINGLE);
  if (!adopted_ && MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    throw base::EnvironmentError("MPI cannot be initialised",
                                 "start with mpirun -n N, or under Slurm with srun --mpi=pmix");
  if (adopted_ && provided < MPI_THREAD_SERIALIZED)
    throw base::EnvironmentError(
        "this program has initialized MPI without support for calls from a communication thread",
        "MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave it to comm::MpiRuntime");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  concurrent_ = provided >= MPI_THREAD_MULTIPLE;
  std::string refusal;
  if (provided < MPI_THREAD_SERIALIZED) refusal = "this MPI library does not support calls from a communication thread";
  if (tasks != nullptr && launched_by_srun && std::atoi(tasks) != size_)
    refusal = fmt::format("Slurm started {} tasks, but MPI sees {} rank{}", tasks, size_, size_ == 1 ? "" : "s");
  if (!refusal.empty()) {
    if (!adopted_) MPI_Finalize();
    throw base::EnvironmentError(refusal, "launch with srun --mpi=pmix, with the MPI that this program was built with");
  }
  node_ = std::make_shared<const MpiNode>(rank_, size_);
}

MpiRuntime::~MpiRuntime() {
  if (!adopted_ && std::uncaught_exceptions() == 0) MPI_Finalize();
}

GroupFactory MpiRuntime::concurrent_factory() {
  if (!concurrent_)
    throw base::EnvironmentError(
        fmt::format("{} lets one thread at a time call it, and pipeline stages need several", library()),
        "use an MPI library that provides MPI_THREAD_MULTIPLE, or a plan of one stage");
  return
      [this](const std::string& group, const std::vector<int>& ranks) { return split(group, ranks, Waiting::asleep); };
}

std::string MpiRuntime::library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, base::size(length));
  return all.substr(0, all.find_first_of(",\n"));  // the rest names who built it
}

void MpiRuntime::abort(int exit_code) {
  base::settle_exit_code(exit_code);  // in case MPI exits the process instead
  leave_at_last(exit_code, step_);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace trainyard::comm

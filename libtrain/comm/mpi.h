// The MPI communicator, and the start and end of MPI in a process.
#pragma once

#include "libtrain/comm/communicator.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::comm {

class MpiNode;

// MPI in this process. One MpiRuntime exists at a time; UsageError for a second one, and once MPI has been finalized.
// If the program has initialized MPI itself, that MPI is used and is not finalized here. It needs at least
// MPI_THREAD_SERIALIZED, and pipeline stages need MPI_THREAD_MULTIPLE (EnvironmentError). Errors of MPI_COMM_WORLD are
// then returned, not fatal.
//
// Communicators of `factory` are called by one thread at a time: the communication thread, or the compute thread while
// the communication thread is idle. So MPI_THREAD_SERIALIZED is enough for them. The constructor throws
// EnvironmentError if srun launched the process and the world's size differs from SLURM_STEP_NUM_TASKS. The destructor
// finalizes the MPI that the constructor has initialized, unless an exception is in flight: peers may be inside a
// collective then. So catch exceptions while the object exists, and end the job by abort(). tools/train/launch.cpp
// does.
class MpiRuntime {
 public:
  MpiRuntime();
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }
  // Collective. The ranks of the communicator may all be processes of one machine that can read one another's memory.
  // Then they wait for one another in a shared-memory rendezvous (comm/node_memory.h). All-gathers and ordered
  // reductions of data in arenas need no messages there. TRAINYARD_SHARED_MEMORY=off turns this off.
  std::unique_ptr<Communicator> communicator(const std::string& group);
  // Over some ranks of the world; the list ascends and includes this rank. Collective over these ranks alone.
  std::unique_ptr<Communicator> split(const std::string& group, const std::vector<int>& ranks);
  GroupFactory factory() {
    return [this](const std::string& group, const std::vector<int>& ranks) { return split(group, ranks); };
  }
  // Makes communicators that several threads may call at the same time, one thread each: for messages between pipeline
  // stages. A call that waits for messages (exchange, all_gather, all_to_all) sleeps meanwhile, so it takes no core
  // from threads that compute. Throws EnvironmentError if the library lacks MPI_THREAD_MULTIPLE.
  GroupFactory concurrent_factory();
  static std::string library();  // "Open MPI v4.1.4"
  // Ends every process of the job with this exit code. Any thread may call it, whatever other threads and ranks are
  // doing. It calls MPI_Abort, which mpirun and srun's PMIx obey. If MPI_Abort does not come to an end, a job step of
  // srun is cancelled and this process exits.
  [[noreturn]] void abort(int exit_code);
  // Sets the largest message in bytes; longer data is sent in parts. For tests.
  static void limit_message_bytes(std::int64_t bytes);

  // How a call waits. patient: polls, then sleeps (comm/spin_wait.h). asleep: never keeps a core busy.
  enum class Waiting { patient, asleep };

 private:
  std::unique_ptr<Communicator> split(const std::string& group, const std::vector<int>& ranks, Waiting waiting);
  struct Alone {  // the only MpiRuntime of the process, for as long as it lives
    Alone();
    ~Alone();
  };
  Alone alone_;
  int rank_ = 0, size_ = 1;
  bool adopted_ = false;     // the program has initialized MPI, and finalizes it
  bool concurrent_ = false;  // several threads may be in MPI at the same time
  std::shared_ptr<const MpiNode> node_;
  std::string step_;  // Slurm's job step, "1234.0"; empty unless srun launched this process
};

}  // namespace trainyard::comm

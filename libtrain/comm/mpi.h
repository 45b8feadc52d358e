// The MPI communicator, and the life of MPI in a process.
#pragma once

#include "libtrain/comm/communicator.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::comm {

class MpiNode;

// Exactly one per process. Communicators of `factory` are called by one thread at a time (the communication thread, or
// the compute thread while that one is idle); a library that lets no more than that call it is enough for them. Refuses
// with EnvironmentError a world whose size differs from SLURM_STEP_NUM_TASKS. The destructor finalizes, unless an
// exception is in flight: then the process must end by abort(), because peers may be inside a collective.
class MpiRuntime {
 public:
  MpiRuntime();
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }
  // Where all ranks of a communicator are processes of one machine that can look at one another's memory, they wait for
  // one another there, and gathers and ordered reductions of what lies in arenas go without messages
  // (comm/node_memory.h). TRAINYARD_SHARED_MEMORY=off: nowhere.
  std::unique_ptr<Communicator> communicator(const std::string& group);  // collective
  // Of some ranks of the world, ascending, this one among them; collective over them alone.
  std::unique_ptr<Communicator> split(const std::string& group, const std::vector<int>& ranks);
  GroupFactory factory() {
    return [this](const std::string& group, const std::vector<int>& ranks) { return split(group, ranks); };
  }
  // Communicators that a thread each may call, at the same time as others: messages between pipeline stages. A call
  // that waits for messages (exchange, all_gather, all_to_all) sleeps meanwhile, so that it takes no core from whoever
  // computes. EnvironmentError where the library has no MPI_THREAD_MULTIPLE.
  GroupFactory concurrent_factory();
  static std::string library();  // "Open MPI v4.1.4"
  // Ends every process of the job with this code, from any thread, whatever the other threads and ranks are doing:
  // MPI_Abort, which mpirun and srun's PMIx obey. Should that not come to an end, a step of srun's is cancelled, and
  // this process leaves.
  [[noreturn]] void abort(int exit_code);
  // Bytes of one message; larger ones travel in parts. For tests.
  static void limit_message_bytes(std::int64_t bytes);

  // For a call: by spinning, then sleeping (comm/spin_wait.h), or never keeping a core busy.
  enum class Waiting { patient, asleep };

 private:
  std::unique_ptr<Communicator> split(const std::string& group, const std::vector<int>& ranks, Waiting waiting);
  int rank_ = 0, size_ = 1;
  bool concurrent_ = false;  // several threads may be in MPI at the same time
  std::shared_ptr<const MpiNode> node_;
  std::string step_;  // "1234.0" where srun launched this process
};

}  // namespace trainyard::comm

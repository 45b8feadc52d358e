// The threads communicator: the ranks are threads of one process. For tests, and for runs under the thread sanitizer.
#pragma once

#include "libtrain/comm/communicator.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::comm {

// Shared by the rank threads of one process. A rank that fails poisons the world: every call that waits, now or later,
// throws PeerError. If ranks disagree about an operation or its sizes, all of them throw CheckError.
class ThreadsWorld {
 public:
  explicit ThreadsWorld(int ranks);
  ~ThreadsWorld();
  int size() const;
  // Every rank asks for the same group names. The communicator must not outlive the world.
  std::unique_ptr<Communicator> communicator(int rank, const std::string& group);
  // A communicator over some ranks of the world; the list ascends and includes `rank`. Each of these ranks asks for it
  // with the same list.
  std::unique_ptr<Communicator> split(int rank, const std::string& group, const std::vector<int>& ranks);
  GroupFactory factory(int rank) {
    return [this, rank](const std::string& group, const std::vector<int>& ranks) { return split(rank, group, ranks); };
  }
  void poison();
  // The rank makes no more calls. A rank that waits for it, now or later, throws PeerError.
  void leave(int rank);
  struct Shared;

 private:
  std::unique_ptr<Shared> shared_;
};

// Runs body(rank, world) on `ranks` threads, joins them, and rethrows the first failure. A PeerError counts only if
// there is no other failure, because it is the echo of another rank's failure.
void run_ranks(int ranks, const std::function<void(int, ThreadsWorld&)>& body);

}  // namespace trainyard::comm

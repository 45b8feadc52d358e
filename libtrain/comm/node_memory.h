// NodeMemory: the shared-memory rendezvous of a group. Ranks that are processes of one machine find one another's
// buffers there, and wait for one another.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"
#include "libtrain/tensor/shared_memory.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::comm {

// All ranks of the group make the same calls, each on one thread at a time: rendezvous(), and leave() after a
// rendezvous that returned true. Neither call allocates, and neither calls a library but through `progress`. The
// exception is the first rendezvous with a buffer that was not seen before, which maps it. A waiting rank sleeps until
// the last one arrives. A rank that never arrives is left to the watchdog, as in any collective.
class NodeMemory {
 public:
  // Bytes of the memory block through which the ranks meet. It is zeroed, and all ranks have mapped it. The destructor
  // unmaps it.
  static std::int64_t block_bytes(int ranks);
  // progress: a waiting rank calls it now and then, for work of a library that goes on only inside its calls.
  NodeMemory(std::string group, int rank, int size, void* block, std::function<void()> progress);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;

  // What all ranks must pass alike for a call.
  struct Call {
    const char* operation;
    std::int64_t bytes;
    std::int64_t contributors = 0;
  };
  // Waits for all ranks; each has written the contents of its buffer before. Returns whether all buffers lie where the
  // other ranks can read them; an empty buffer counts as readable. Every rank gets the same answer. Throws CheckError
  // on every rank if their calls differ.
  bool rendezvous(const Call& call, const base::View& mine, const tensor::Exec& exec);
  // Where the buffer of a rank begins, also of this rank. Valid after a rendezvous that returned true, until leave().
  // Read only.
  const char* of(int rank) const { return base::at(found_, rank); }
  // Waits until no rank reads any more.
  void leave(const tensor::Exec& exec);

 private:
  struct Block;
  struct Post;
  Post& post(int rank, std::uint32_t number);
  void arrive(const tensor::Exec& exec);
  [[noreturn]] void disagree(int rank, const Post& first, const Post& other) const;

  std::string group_;
  int rank_, size_;
  Block* block_;
  std::function<void()> progress_;
  std::uint32_t rendezvous_count_ = 0;
  std::vector<const char*> found_;
};

}  // namespace trainyard::comm

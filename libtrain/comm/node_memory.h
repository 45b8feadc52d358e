// NodeMemory: how ranks of a group that are processes of one machine find one another's buffers and wait for one
// another.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"
#include "libtrain/tensor/shared_memory.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::comm {

// All ranks make the same calls, each on one thread at a time: rendezvous(), and after one that said yes, leave().
// Neither allocates nor makes a call to a library, but the first rendezvous with a buffer that was not seen before,
// which is mapped. Whoever waits sleeps until the last one arrives; one that does not is the watchdog's, as in any
// collective.
class NodeMemory {
 public:
  // The memory through which they meet, zeroed, mapped by all of them; unmapped with this.
  static std::int64_t block_bytes(int ranks);
  // progress: called now and then by who waits, for work that goes on only inside of calls of a library.
  NodeMemory(std::string group, int rank, int size, void* block, std::function<void()> progress);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;

  // What all must say alike of a call.
  struct Call {
    const char* operation;
    std::int64_t bytes;
    std::int64_t contributors = 0;
  };
  // Waits for all, who have made the contents of their buffers before. Are all buffers where the others can see them?
  // An empty one is. The answer is everyone's. CheckError on every rank where calls differ.
  bool rendezvous(const Call& call, const base::View& mine, const tensor::Exec& exec);
  // Where the buffer of a rank begins, this one's too, after a rendezvous that said yes and until leave(). Read only.
  const char* of(int rank) const { return found_[static_cast<std::size_t>(rank)]; }
  // Waits until nobody reads any more.
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

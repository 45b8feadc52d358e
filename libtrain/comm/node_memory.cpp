// A shared segment of posts, and one counter at which all ranks arrive. The kernel wakes ranks that sleep there, also
// in other processes.
#include "libtrain/comm/node_memory.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/spin_wait.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace trainyard::comm {

namespace {

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4);

// Sleeps until another process or thread changes the word and wakes this one, or the time is over.
void sleep_at(const Word& word, std::uint32_t while_it_is, double seconds) {
  timespec time{};
  time.tv_nsec = static_cast<long>(seconds * 1e9);
  syscall(SYS_futex, &word, FUTEX_WAIT, while_it_is, &time, nullptr, 0);
}
void wake_all_at(const Word& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }

// In seconds. The last rank to arrive wakes the sleepers, so a sleep has to end earlier only for a library's progress.
constexpr double longest_sleep = 4e-3;

}  // namespace

struct alignas(128) NodeMemory::Post {
  char operation[24];
  std::int64_t bytes, contributors;
  enum class Buffer : std::int32_t { empty, seen, hidden } buffer;
  tensor::SharedPlace place;
};

struct NodeMemory::Block {
  alignas(128) Word arrived;
  alignas(128) Word round, sleepers;
};

std::int64_t NodeMemory::block_bytes(int ranks) {
  return static_cast<std::int64_t>(sizeof(Block) + 2 * base::size(ranks) * sizeof(Post));
}

NodeMemory::NodeMemory(std::string group, int rank, int size, void* block, std::function<void()> progress)
    : group_(std::move(group)), rank_(rank), size_(size), block_(static_cast<Block*>(block)),
      progress_(std::move(progress)), found_(base::size(size), nullptr) {}

NodeMemory::~NodeMemory() { munmap(block_, base::size(block_bytes(size_))); }

// Posts alternate between two sets. A rank at the next rendezvous already writes while others still read the posts of
// this one; no rank is further ahead.
NodeMemory::Post& NodeMemory::post(int rank, std::uint32_t number) {
  auto* posts = reinterpret_cast<Post*>(reinterpret_cast<char*>(block_) + sizeof(Block));
  return posts[static_cast<std::ptrdiff_t>(number % 2) * size_ + rank];
}

void NodeMemory::arrive(const tensor::Exec& exec) {
  const auto round = block_->round.load();
  if (block_->arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(size_)) {
    block_->arrived.store(0);
    block_->round.store(round + 1);
    if (block_->sleepers.load() > 0) wake_all_at(block_->round);
    return;
  }
  // Ranks that come together meet within a microsecond or two, before the system gives the core to another thread.
  constexpr int looks_at_once = 64;
  for (int looks = 0; looks < looks_at_once; ++looks) {
    if (block_->round.load() != round) return;
    __builtin_ia32_pause();
  }
  SpinWait wait(exec);
  for (int looks = 1; block_->round.load() == round; ++looks) {
    if (wait.nap() == 0) {
      if (progress_ && looks % 64 == 0) progress_();
      continue;
    }
    block_->sleepers.fetch_add(1);
    if (block_->round.load() == round) sleep_at(block_->round, round, longest_sleep);
    block_->sleepers.fetch_sub(1);
    if (progress_) progress_();
  }
}

bool NodeMemory::rendezvous(const Call& call, const base::View& mine, const tensor::Exec& exec) {
  using Buffer = Post::Buffer;
  const auto number = rendezvous_count_++;
  auto& own = post(rank_, number);
  std::strncpy(own.operation, call.operation, sizeof own.operation - 1);
  own.bytes = call.bytes, own.contributors = call.contributors;
  own.place =
      mine.data != nullptr && mine.bytes() > 0 ? tensor::shared_place(mine.data, mine.bytes()) : tensor::SharedPlace{};
  own.buffer = own.place.region != 0                      ? Buffer::seen
               : mine.data != nullptr && mine.bytes() > 0 ? Buffer::hidden
                                                          : Buffer::empty;
  arrive(exec);
  bool all_seen = true;
  const auto& first = post(0, number);
  for (int r = 0; r < size_; ++r) {
    const auto& p = post(r, number);
    if (std::strcmp(p.operation, first.operation) != 0 || p.bytes != first.bytes ||
        p.contributors != first.contributors)
      disagree(r, first, p);
    all_seen = all_seen && p.buffer != Buffer::hidden;
  }
  if (!all_seen) return false;
  for (int r = 0; r < size_; ++r) {
    const auto& p = post(r, number);
    auto& at = base::at(found_, r);
    at = nullptr;
    if (r == rank_) at = static_cast<const char*>(mine.data);
    else if (p.buffer == Buffer::seen) at = tensor::memory_of_peer(p.place);
  }
  return true;
}

void NodeMemory::leave(const tensor::Exec& exec) { arrive(exec); }

void NodeMemory::disagree(int rank, const Post& first, const Post& other) const {
  throw base::CheckError(fmt::format("group {}: rank 0 is in {} of {} bytes, rank {} in {} of {} bytes", group_,
                                     first.operation, first.bytes, rank, other.operation, other.bytes),
                         "every rank must make the same calls in the same order");
}

}  // namespace trainyard::comm

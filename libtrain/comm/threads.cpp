// Collectives among threads: every rank posts its views, all ranks meet, each copies what it needs, all meet again.
#include "libtrain/comm/threads.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/bytes.h"
#include "libtrain/comm/entry.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainyard::comm {

namespace {

struct Post {
  std::string operation;
  base::View in, out;
  std::int64_t check = 0;  // must be equal on all ranks
  std::vector<std::int64_t> send_counts, receive_counts;
  std::vector<Transfer> transfers;
};

}  // namespace

struct ThreadsWorld::Shared {
  struct Group {
    std::vector<int> members;  // ranks of the world, ascending
    std::vector<Post> posts;   // one per member
    int arrived = 0;
    std::uint64_t round = 0;
    std::condition_variable changed;  // for each group, so that ranks that wait in other groups are not woken
  };
  explicit Shared(int ranks) : size(ranks), left(base::size(ranks), 0) {}
  int size;
  std::mutex mutex;
  bool poisoned = false;
  std::vector<char> left;  // ranks whose body has returned: they will never arrive again
  std::map<std::pair<std::string, std::vector<int>>, Group> groups;

  void wake_all() {  // under the mutex
    for (auto& [key, group] : groups) group.changed.notify_all();
  }
  // The last member of the group to arrive wakes the others.
  bool arrive(Group& g) {
    if (++g.arrived < static_cast<int>(g.members.size())) return false;
    g.arrived = 0;
    ++g.round;
    g.changed.notify_all();
    return true;
  }
  // Begins a call: returns when all members of the group have begun it.
  void rendezvous(Group& g) {
    std::unique_lock lock(mutex);
    if (poisoned) throw base::PeerError("another rank of this process has failed");
    const auto round = g.round;
    if (arrive(g)) return;
    const auto abandoned = [&] {
      for (int r : g.members)
        if (base::at(left, r)) return true;
      return false;
    };
    g.changed.wait(lock, [&] { return g.round != round || poisoned || abandoned(); });
    if (g.round == round)
      throw base::PeerError("another rank of this process has failed or left while this one waits for it");
  }
  // Within a call that all members have begun. All of them finish it, even if the world is poisoned meanwhile. A member
  // that left at once would free buffers that others still read.
  void rendezvous_within(Group& g) {
    std::unique_lock lock(mutex);
    const auto round = g.round;
    if (arrive(g)) return;
    g.changed.wait(lock, [&] { return g.round != round; });
  }
};

namespace {

template <class T> T combined(T a, T b, Reduction op) {
  if (op == Reduction::sum) return static_cast<T>(a + b);
  return op == Reduction::max ? (a < b ? b : a) : b < a ? b : a;
}

template <class T> void combine(T* into, const T* from, std::int64_t n, Reduction op) {
  for (std::int64_t i = 0; i < n; ++i) into[i] = combined(into[i], from[i], op);
}

// Narrow values are added in f32, and each addition is rounded once.
template <class T> void combine_narrow(T* into, const T* from, std::int64_t n, Reduction op) {
  for (std::int64_t i = 0; i < n; ++i)
    into[i] = T(combined(static_cast<float>(into[i]), static_cast<float>(from[i]), op));
}

void copy_bytes(void* to, const void* from, std::int64_t n) {
  if (n > 0 && to != from) std::memcpy(to, from, base::size(n));
}

void combine_bytes(char* into, const char* from, std::int64_t n, base::DType dtype, Reduction op) {
  base::with_value_type(dtype, [&]<class T>(T*) {
    auto* to = reinterpret_cast<T*>(into);
    const auto* more = reinterpret_cast<const T*>(from);
    if constexpr (std::is_arithmetic_v<T>) combine(to, more, n, op);
    else combine_narrow(to, more, n, op);
  });
}

void require_reducible(base::DType t) {
  if (t == base::DType::u8 || t == base::DType::u16 || t == base::DType::u32)
    throw base::Unsupported(fmt::format("no reduction of {}", base::name_of(t)),
                            "reduce i32, i64, u64 or a type that kernels compute in");
}

class ThreadsCommunicator : public Communicator {
 public:
  ThreadsCommunicator(std::string group, int rank, const std::vector<int>& members, ThreadsWorld::Shared& shared)
      : Communicator(std::move(group), rank, static_cast<int>(members.size())), shared_(shared) {
    std::lock_guard lock(shared.mutex);
    state_ = &shared.groups[{group_, members}];
    state_->members = members;
    state_->posts.resize(members.size());
  }

  void all_reduce(tensor::Exec& exec, base::View inout, Reduction op) override {
    require_reducible(inout.dtype);
    exec.run([this, inout, op] {
      scratch_.resize(base::size(inout.bytes()));
      call({"all_reduce",
            inout,
            inout,
            (inout.count() * 16 + static_cast<int>(inout.dtype)) * 4 + static_cast<int>(op),
            {},
            {},
            {}},
           all_reduce_bytes(inout.bytes(), size_), [&](const std::vector<Post>& posts) {
             copy_bytes(scratch_.data(), posts[0].in.data, inout.bytes());
             for (int r = 1; r < size_; ++r)
               combine_bytes(scratch_.data(), bytes_of(base::at(posts, r).in), inout.count(), inout.dtype, op);
             shared_.rendezvous_within(*state_);
             copy_bytes(inout.data, scratch_.data(), inout.bytes());
           });
    });
  }
  void all_gather(tensor::Exec& exec, base::View in, base::View out) override {
    require_shards("all_gather", out, in);
    exec.run([this, in, out] {
      call({"all_gather", in, out, in.bytes(), {}, {}, {}}, all_gather_bytes(in.bytes(), size_),
           [&](const std::vector<Post>& posts) {
             for (int r = 0; r < size_; ++r) {
               copy_bytes(bytes_of(out) + r * in.bytes(), base::at(posts, r).in.data, in.bytes());
             }
           });
    });
  }
  void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) override {
    require_reducible(out.dtype);
    require_shards("reduce_scatter", in, out);
    exec.run([this, in, out] {
      call({"reduce_scatter", in, out, out.count() * 16 + static_cast<int>(out.dtype), {}, {}, {}},
           reduce_scatter_bytes(out.bytes(), size_), [&](const std::vector<Post>& posts) {
             copy_bytes(out.data, bytes_of(posts[0].in) + rank_ * out.bytes(), out.bytes());
             for (int r = 1; r < size_; ++r)
               combine_bytes(bytes_of(out), bytes_of(base::at(posts, r).in) + rank_ * out.bytes(), out.count(),
                             out.dtype, Reduction::sum);
           });
    });
  }
  void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    require_counts(send_counts, receive_counts);
    std::vector<std::int64_t> sends(send_counts.begin(), send_counts.end()),
        receives(receive_counts.begin(), receive_counts.end());
    exec.run([this, send, receive, sends = std::move(sends), receives = std::move(receives)] {
      const auto width = base::size_of(receive.dtype);
      std::int64_t sent = 0;
      for (int r = 0; r < size_; ++r) sent += r == rank_ ? 0 : base::at(sends, r) * width;
      call({"all_to_all", send, receive, width, sends, receives, {}}, sent, [&](const std::vector<Post>& posts) {
        std::int64_t to = 0;
        for (int r = 0; r < size_; ++r) {
          const auto& p = base::at(posts, r);
          std::int64_t from = 0;
          for (int k = 0; k < rank_; ++k) from += base::at(p.send_counts, k);
          const auto n = base::at(receives, r);
          copy_bytes(bytes_of(receive) + to * width, bytes_of(p.in) + from * width, n * width);
          to += n;
        }
      });
    });
  }
  void broadcast(tensor::Exec& exec, base::View inout, int root) override {
    require_rank("broadcast", root);
    exec.run([this, inout, root] {
      call({"broadcast", inout, inout, inout.bytes() * 64 + root, {}, {}, {}},
           broadcast_bytes(inout.bytes(), size_, rank_, root), [&](const std::vector<Post>& posts) {
             if (rank_ != root) copy_bytes(inout.data, base::at(posts, root).in.data, inout.bytes());
           });
    });
  }
  void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) override {
    require_peers(transfers);
    std::vector<Transfer> list(transfers.begin(), transfers.end());
    exec.run([this, list = std::move(list)] {
      std::int64_t sent = 0;
      for (const auto& t : list) sent += t.kind == Transfer::Kind::send && t.peer != rank_ ? t.view.bytes() : 0;
      call({"exchange", {}, {}, 0, {}, {}, list}, sent, [&](const std::vector<Post>& posts) {
        std::vector<std::size_t> taken(base::size(size_), 0);  // messages between a pair match in order
        for (const auto& t : list) {
          if (t.kind != Transfer::Kind::receive) continue;
          const auto* match = nth(base::at(posts, t.peer), Transfer::Kind::send, rank_, base::at(taken, t.peer)++);
          copy_bytes(t.view.data, match->view.data, t.view.bytes());
        }
      });
    });
  }
  void barrier(tensor::Exec& exec) override {
    exec.run([this] { call({"barrier", {}, {}, 0, {}, {}, {}}, 0, [](const std::vector<Post>&) {}); });
  }

 private:
  static const Transfer* nth(const Post& post, Transfer::Kind kind, int peer, std::size_t n) {
    for (const auto& t : post.transfers)
      if (t.kind == kind && t.peer == peer && n-- == 0) return &t;
    return nullptr;
  }

  // What the members disagree about; empty if nothing. It depends on the posts alone, so every member comes to the same
  // answer.
  std::string disagreement(const std::vector<Post>& posts) const {
    for (int r = 1; r < size_; ++r) {
      const auto &a = posts[0], &b = base::at(posts, r);
      if (a.operation != b.operation) return fmt::format("rank 0 is in {}, rank {} in {}", a.operation, r, b.operation);
      if (a.check != b.check) return fmt::format("{} with different sizes or types on ranks 0 and {}", a.operation, r);
    }
    for (int from = 0; from < size_; ++from)
      for (int to = 0; to < size_; ++to) {
        const auto &a = base::at(posts, from), &b = base::at(posts, to);
        if (a.operation == "all_to_all" && base::at(a.send_counts, to) != base::at(b.receive_counts, from))
          return fmt::format("all_to_all: rank {} sends {} elements to rank {}, which expects {}", from,
                             base::at(a.send_counts, to), to, base::at(b.receive_counts, from));
        for (std::size_t n = 0; a.operation == "exchange"; ++n) {
          const auto *sent = nth(a, Transfer::Kind::send, to, n), *expected = nth(b, Transfer::Kind::receive, from, n);
          if (sent == nullptr && expected == nullptr) break;
          if (sent == nullptr || expected == nullptr || sent->view.bytes() != expected->view.bytes())
            return fmt::format("exchange: message {} from rank {} to rank {} has {} bytes, {} are expected", n, from,
                               to, sent ? sent->view.bytes() : -1, expected ? expected->view.bytes() : -1);
        }
      }
    return {};
  }

  // `body` must not throw, because the other ranks would wait for this one.
  template <class Body> void call(Post post, std::int64_t sent_bytes, const Body& body) {
    Entry entry(ledger_, post.operation.c_str(), sent_bytes);
    base::at(state_->posts, rank_) = std::move(post);
    shared_.rendezvous(*state_);
    std::string problem;
    try {
      problem = disagreement(state_->posts);
    } catch (...) {  // no memory for the text of a problem, which all members have found
      shared_.rendezvous_within(*state_);
      throw;
    }
    if (problem.empty()) body(state_->posts);
    shared_.rendezvous_within(*state_);  // no rank changes a post or a buffer while another still reads it
    if (!problem.empty())
      throw base::CheckError(fmt::format("group {}: {}", group_, problem),
                             "every rank must make the same calls in the same order");
  }

  ThreadsWorld::Shared& shared_;
  ThreadsWorld::Shared::Group* state_ = nullptr;
  std::vector<char> scratch_;
};

}  // namespace

ThreadsWorld::ThreadsWorld(int ranks) {
  TRAINYARD_ASSERT(ranks >= 1, "{} ranks", ranks);
  shared_ = std::make_unique<Shared>(ranks);
}
ThreadsWorld::~ThreadsWorld() = default;
int ThreadsWorld::size() const { return shared_->size; }

std::unique_ptr<Communicator> ThreadsWorld::communicator(int rank, const std::string& group) {
  std::vector<int> all(base::size(shared_->size));
  std::iota(all.begin(), all.end(), 0);
  return split(rank, group, all);
}

std::unique_ptr<Communicator> ThreadsWorld::split(int rank, const std::string& group, const std::vector<int>& ranks) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank);
  TRAINYARD_ASSERT(own != ranks.end() && std::is_sorted(ranks.begin(), ranks.end()), "rank {} of group {}", rank,
                   group);
  return std::make_unique<ThreadsCommunicator>(group, static_cast<int>(own - ranks.begin()), ranks, *shared_);
}

void ThreadsWorld::poison() {
  std::lock_guard lock(shared_->mutex);
  shared_->poisoned = true;
  shared_->wake_all();
}

void ThreadsWorld::leave(int rank) {
  std::lock_guard lock(shared_->mutex);
  base::at(shared_->left, rank) = 1;
  shared_->wake_all();
}

void run_ranks(int ranks, const std::function<void(int, ThreadsWorld&)>& body) {
  ThreadsWorld world(ranks);
  std::mutex mutex;
  std::exception_ptr cause, echo;
  std::vector<std::thread> team;
  const auto keep = [&mutex](std::exception_ptr& first) {
    std::lock_guard lock(mutex);
    if (!first) first = std::current_exception();
  };
  const auto work = [&](int r) {
    try {
      body(r, world);
      world.leave(r);
    } catch (const base::PeerError&) {
      keep(echo);
      world.poison();
    } catch (...) {
      keep(cause);
      world.poison();
    }
  };
  try {
    for (int r = 0; r < ranks; ++r) team.emplace_back(work, r);
  } catch (...) {  // the system refuses a thread, and the ranks that run would wait for it
    keep(cause);
    world.poison();
  }
  for (auto& t : team) t.join();
  if (cause) std::rethrow_exception(cause);
  if (echo) std::rethrow_exception(echo);
}

}  // namespace trainyard::comm

// Collectives among threads: every rank posts its views, all meet, each copies what it needs, all meet again.
#include "libtrain/comm/threads.h"

#include "libtrain/base/error.h"
#include "libtrain/comm/entry.h"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace trainyard::comm {

namespace {

struct Post {
  std::string operation;
  base::View in, out;
  std::int64_t check = 0;                        // must be equal on all ranks
  std::vector<std::int64_t> send_counts, receive_counts;
  std::vector<Transfer> transfers;
};

}  // namespace

struct ThreadsWorld::Shared {
  struct Group {
    std::vector<Post> posts;
    int arrived = 0;
    std::uint64_t round = 0;
  };
  int size = 1;
  std::mutex mutex;
  std::condition_variable changed;
  bool poisoned = false;
  std::map<std::string, Group> groups;

  // All ranks of the group have called meet() as often as this one.
  void meet(Group& g) {
    std::unique_lock lock(mutex);
    const auto round = g.round;
    if (++g.arrived == size) {
      g.arrived = 0;
      ++g.round;
      changed.notify_all();
      return;
    }
    changed.wait(lock, [&] { return g.round != round || poisoned; });
    if (g.round == round) throw base::PeerError("another rank of this process has failed or left");
  }
};

namespace {

char* bytes_of(const base::View& v) { return static_cast<char*>(v.data); }

template <class T> void combine(T* into, const T* from, std::int64_t n, Reduction op) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (op == Reduction::sum) into[i] = static_cast<T>(into[i] + from[i]);
    else if (op == Reduction::max) into[i] = into[i] < from[i] ? from[i] : into[i];
    else into[i] = from[i] < into[i] ? from[i] : into[i];
  }
}

void combine_bytes(char* into, const char* from, std::int64_t n, base::DType dtype, Reduction op) {
  const auto as = [&]<class T>(T*) { combine(reinterpret_cast<T*>(into), reinterpret_cast<const T*>(from), n, op); };
  switch (dtype) {
    case base::DType::f32: return as(static_cast<float*>(nullptr));
    case base::DType::f64: return as(static_cast<double*>(nullptr));
    case base::DType::i32: return as(static_cast<std::int32_t*>(nullptr));
    case base::DType::i64: return as(static_cast<std::int64_t*>(nullptr));
    case base::DType::u64: return as(static_cast<std::uint64_t*>(nullptr));
    default: throw base::Unsupported(fmt::format("no reduction of {}", base::name_of(dtype)), "reduce f32, f64, i32, i64 or u64");
  }
}

class ThreadsCommunicator : public Communicator {
 public:
  ThreadsCommunicator(std::string group, int rank, ThreadsWorld::Shared& shared) : Communicator(std::move(group), rank, shared.size), shared_(shared) {
    std::lock_guard lock(shared.mutex);
    state_ = &shared.groups[group_];
    state_->posts.resize(static_cast<std::size_t>(size_));
  }

  void all_reduce(tensor::Exec& exec, base::View inout, Reduction op) override {
    exec.run([this, inout, op] {
      call({"all_reduce", inout, inout, inout.count() * 16 + static_cast<int>(inout.dtype), {}, {}, {}}, all_reduce_bytes(inout.bytes(), size_), [&](const std::vector<Post>& posts) {
        scratch_.resize(static_cast<std::size_t>(inout.bytes()));
        std::memcpy(scratch_.data(), posts[0].in.data, scratch_.size());
        for (int r = 1; r < size_; ++r) combine_bytes(scratch_.data(), bytes_of(posts[static_cast<std::size_t>(r)].in), inout.count(), inout.dtype, op);
        shared_.meet(*state_);
        std::memcpy(inout.data, scratch_.data(), scratch_.size());
      });
    });
  }
  void all_gather(tensor::Exec& exec, base::View in, base::View out) override {
    exec.run([this, in, out] {
      call({"all_gather", in, out, in.bytes(), {}, {}, {}}, all_gather_bytes(in.bytes(), size_), [&](const std::vector<Post>& posts) {
        for (int r = 0; r < size_; ++r) {
          auto* to = bytes_of(out) + r * in.bytes();
          const auto* from = posts[static_cast<std::size_t>(r)].in.data;
          if (to != from) std::memcpy(to, from, static_cast<std::size_t>(in.bytes()));
        }
      });
    });
  }
  void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) override {
    exec.run([this, in, out] {
      call({"reduce_scatter", in, out, out.bytes(), {}, {}, {}}, reduce_scatter_bytes(out.bytes(), size_), [&](const std::vector<Post>& posts) {
        std::memcpy(out.data, bytes_of(posts[0].in) + rank_ * out.bytes(), static_cast<std::size_t>(out.bytes()));
        for (int r = 1; r < size_; ++r)
          combine_bytes(bytes_of(out), bytes_of(posts[static_cast<std::size_t>(r)].in) + rank_ * out.bytes(), out.count(), out.dtype, Reduction::sum);
      });
    });
  }
  void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    std::vector<std::int64_t> sends(send_counts.begin(), send_counts.end()), receives(receive_counts.begin(), receive_counts.end());
    exec.run([this, send, receive, sends = std::move(sends), receives = std::move(receives)] {
      const auto width = base::size_of(receive.dtype);
      std::int64_t sent = 0;
      for (int r = 0; r < size_; ++r) sent += r == rank_ ? 0 : sends[static_cast<std::size_t>(r)] * width;
      call({"all_to_all", send, receive, width, sends, receives, {}}, sent, [&](const std::vector<Post>& posts) {
        std::int64_t to = 0;
        for (int r = 0; r < size_; ++r) {
          const auto& p = posts[static_cast<std::size_t>(r)];
          std::int64_t from = 0;
          for (int k = 0; k < rank_; ++k) from += p.send_counts[static_cast<std::size_t>(k)];
          const auto n = receives[static_cast<std::size_t>(r)];
          check(n == p.send_counts[static_cast<std::size_t>(rank_)], "all_to_all counts differ");
          if (n > 0) std::memcpy(bytes_of(receive) + to * width, bytes_of(p.in) + from * width, static_cast<std::size_t>(n * width));
          to += n;
        }
      });
    });
  }
  void broadcast(tensor::Exec& exec, base::View inout, int root) override {
    exec.run([this, inout, root] {
      call({"broadcast", inout, inout, inout.bytes() * 64 + root, {}, {}, {}}, broadcast_bytes(inout.bytes(), size_, rank_, root), [&](const std::vector<Post>& posts) {
        if (rank_ != root) std::memcpy(inout.data, posts[static_cast<std::size_t>(root)].in.data, static_cast<std::size_t>(inout.bytes()));
      });
    });
  }
  void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) override {
    std::vector<Transfer> list(transfers.begin(), transfers.end());
    exec.run([this, list = std::move(list)] {
      std::int64_t sent = 0;
      for (const auto& t : list) sent += t.kind == Transfer::Kind::send && t.peer != rank_ ? t.view.bytes() : 0;
      call({"exchange", {}, {}, 0, {}, {}, list}, sent, [&](const std::vector<Post>& posts) {
        std::vector<int> taken(static_cast<std::size_t>(size_), 0);  // messages between a pair match in order
        for (const auto& t : list) {
          if (t.kind != Transfer::Kind::receive) continue;
          int skip = taken[static_cast<std::size_t>(t.peer)]++;
          const Transfer* match = nullptr;
          for (const auto& s : posts[static_cast<std::size_t>(t.peer)].transfers)
            if (s.kind == Transfer::Kind::send && s.peer == rank_ && skip-- == 0) match = &s;
          check(match != nullptr && match->view.bytes() == t.view.bytes(), "exchange without its counterpart");
          std::memcpy(t.view.data, match->view.data, static_cast<std::size_t>(t.view.bytes()));
        }
      });
    });
  }
  void barrier(tensor::Exec& exec) override {
    exec.run([this] { call({"barrier", {}, {}, 0, {}, {}, {}}, 0, [](const std::vector<Post>&) {}); });
  }

 private:
  void check(bool ok, const char* what) {
    if (ok) return;
    throw base::CheckError(fmt::format("group {}: {}", group_, what));
  }
  template <class Body> void call(Post post, std::int64_t sent_bytes, const Body& body) {
    Entry entry(ledger_, post.operation.c_str(), sent_bytes);
    const auto own = static_cast<std::size_t>(rank_);
    state_->posts[own] = std::move(post);
    shared_.meet(*state_);
    for (int r = 0; r < size_; ++r) {
      const auto& other = state_->posts[static_cast<std::size_t>(r)];
      if (other.operation != state_->posts[own].operation || other.check != state_->posts[own].check)
        throw base::CheckError(fmt::format("group {}: rank {} is in {} ({}), rank {} in {} ({})", group_, rank_, state_->posts[own].operation,
                                           state_->posts[own].check, r, other.operation, other.check));
    }
    body(state_->posts);
    shared_.meet(*state_);
  }

  ThreadsWorld::Shared& shared_;
  ThreadsWorld::Shared::Group* state_ = nullptr;
  std::vector<char> scratch_;
};

}  // namespace

ThreadsWorld::ThreadsWorld(int ranks) : shared_(std::make_unique<Shared>()) {
  TRAINYARD_ASSERT(ranks >= 1, "{} ranks", ranks);
  shared_->size = ranks;
}
ThreadsWorld::~ThreadsWorld() = default;
int ThreadsWorld::size() const { return shared_->size; }

std::unique_ptr<Communicator> ThreadsWorld::communicator(int rank, const std::string& group) {
  return std::make_unique<ThreadsCommunicator>(group, rank, *shared_);
}

void ThreadsWorld::poison() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->poisoned = true;
  }
  shared_->changed.notify_all();
}

void run_ranks(int ranks, const std::function<void(int, ThreadsWorld&)>& body) {
  ThreadsWorld world(ranks);
  std::mutex mutex;
  std::exception_ptr cause, echo;
  std::vector<std::thread> team;
  for (int r = 0; r < ranks; ++r)
    team.emplace_back([&, r] {
      try {
        body(r, world);
      } catch (const base::PeerError&) {
        std::lock_guard lock(mutex);
        if (!echo) echo = std::current_exception();
      } catch (...) {
        {
          std::lock_guard lock(mutex);
          if (!cause) cause = std::current_exception();
        }
        world.poison();
      }
    });
  for (auto& t : team) t.join();
  if (cause) std::rethrow_exception(cause);
  if (echo) std::rethrow_exception(echo);
}

}  // namespace trainyard::comm

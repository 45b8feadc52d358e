// Collectives over MPI. Data moves by point-to-point messages of our own, so that the ledger's bytes are the bytes on
// the wire; sums that are handed to the library (all_reduce, reduce_scatter) keep the library's order.
#include "libtrain/base/here_and_now.h"
#include "libtrain/comm/bytes.h"
#include "libtrain/comm/entry.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/mpi_calls.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

namespace trainyard::comm {

namespace {

std::atomic<std::int64_t> message_limit{std::int64_t{1} << 30};

using Waiting = MpiRuntime::Waiting;

// Messages in flight; posts receives before sends, in parts below the limit, and completes them together.
class Messages {
 public:
  Messages(MPI_Comm comm, std::vector<MPI_Request>& requests, Waiting waiting)
      : comm_(comm), requests_(requests), waiting_(waiting) {
    requests_.clear();
  }
  void receive(char* data, std::int64_t bytes, int peer) {
    parts(bytes, [&](std::int64_t at, int n) {
      check_mpi(MPI_Irecv(data + at, n, MPI_BYTE, peer, 0, comm_, next()), "MPI_Irecv");
    });
  }
  void send(const char* data, std::int64_t bytes, int peer) {
    parts(bytes, [&](std::int64_t at, int n) {
      check_mpi(MPI_Isend(data + at, n, MPI_BYTE, peer, 0, comm_, next()), "MPI_Isend");
    });
  }
  void complete() {
    if (requests_.empty()) return;
    const int count = static_cast<int>(requests_.size());
    if (waiting_ == Waiting::busy)
      return check_mpi(MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    // The library's own wait keeps a core busy. Each nap is a small part of what was waited so far, so that it delays
    // little, and short enough for the data to move meanwhile, which it does inside of calls only.
    const double start = base::steady_seconds();
    for (int done = 0;;) {
      check_mpi(MPI_Testall(count, requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
      if (done != 0) return;
      const double waited = base::steady_seconds() - start;
      if (waited < shortest_nap) std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(waited / 16, shortest_nap, longest_nap)));
    }
  }

 private:
  static constexpr double shortest_nap = 50e-6, longest_nap = 1e-3;
  template <class Post> static void parts(std::int64_t bytes, const Post& post) {
    const auto limit = message_limit.load();
    for (std::int64_t at = 0; at < bytes; at += limit) post(at, static_cast<int>(std::min(limit, bytes - at)));
  }
  MPI_Request* next() {
    requests_.push_back(MPI_REQUEST_NULL);
    return &requests_.back();
  }
  MPI_Comm comm_;
  std::vector<MPI_Request>& requests_;
  Waiting waiting_;
};

// MPI knows no bf16: its sums widen to f32 and round once for each addition.
template <Reduction op> void combine_bf16(void* from, void* into, int* count, MPI_Datatype*) {
  const auto* in = static_cast<const base::bf16*>(from);
  auto* out = static_cast<base::bf16*>(into);
  for (int i = 0; i < *count; ++i) {
    const auto a = static_cast<float>(in[i]), b = static_cast<float>(out[i]);
    out[i] = base::bf16(op == Reduction::sum ? a + b : op == Reduction::max ? std::max(a, b) : std::min(a, b));
  }
}

template <Reduction op> MPI_Op bf16_op() {
  static const MPI_Op made = [] {
    MPI_Op o = MPI_OP_NULL;
    check_mpi(MPI_Op_create(combine_bf16<op>, 1, &o), "MPI_Op_create");
    return o;
  }();
  return made;
}

MPI_Op op_of(Reduction op, base::DType dtype) {
  const bool own = dtype == base::DType::bf16;
  switch (op) {
    case Reduction::sum: return own ? bf16_op<Reduction::sum>() : MPI_SUM;
    case Reduction::max: return own ? bf16_op<Reduction::max>() : MPI_MAX;
    case Reduction::min: return own ? bf16_op<Reduction::min>() : MPI_MIN;
  }
  return MPI_OP_NULL;
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(std::string group, int rank, int size, MPI_Comm comm, Waiting waiting)
      : Communicator(std::move(group), rank, size), comm_(comm), waiting_(waiting) {
    requests_.reserve(4096 / sizeof(MPI_Request));
  }
  ~MpiCommunicator() override = default;  // the MPI communicator lives until finalize: freeing it would communicate

  void all_reduce(tensor::Exec& exec, base::View inout, Reduction op) override {
    exec.run([this, inout, op] {
      Entry entry(ledger_, "all_reduce", all_reduce_bytes(inout.bytes(), size_));
      const auto native = op_of(op, inout.dtype);
      in_parts(inout, [&](void* data, int count) {
        check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, count, mpi_type(inout.dtype), native, comm_), "MPI_Allreduce");
      });
    });
  }

  // Pairwise: in round k every rank sends its piece to rank + k and receives that of rank - k.
  void all_gather(tensor::Exec& exec, base::View in, base::View out) override {
    exec.run([this, in, out] {
      Entry entry(ledger_, "all_gather", all_gather_bytes(in.bytes(), size_));
      TRAINYARD_ASSERT(out.bytes() == size_ * in.bytes(), "{} bytes for {} pieces of {}", out.bytes(), size_,
                       in.bytes());
      char* own = bytes_of(out) + rank_ * in.bytes();
      if (own != in.data && in.bytes() > 0) std::memcpy(own, in.data, static_cast<std::size_t>(in.bytes()));
      Messages messages(comm_, requests_, waiting_);
      for (int k = 1; k < size_; ++k) messages.receive(bytes_of(out) + from(k) * in.bytes(), in.bytes(), from(k));
      for (int k = 1; k < size_; ++k) messages.send(own, in.bytes(), to(k));
      messages.complete();
    });
  }

  void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) override {
    exec.run([this, in, out] {
      Entry entry(ledger_, "reduce_scatter", reduce_scatter_bytes(out.bytes(), size_));
      TRAINYARD_ASSERT(out.count() <= INT32_MAX, "a piece of {} elements", out.count());
      check_mpi(MPI_Reduce_scatter_block(in.data, out.data, static_cast<int>(out.count()), mpi_type(out.dtype),
                                         op_of(Reduction::sum, out.dtype), comm_),
                "MPI_Reduce_scatter_block");
    });
  }

  void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    std::vector<std::int64_t> sends(send_counts.begin(), send_counts.end()),
        receives(receive_counts.begin(), receive_counts.end());
    exec.run([this, send, receive, sends = std::move(sends), receives = std::move(receives)] {
      const auto width = base::size_of(receive.dtype);
      const auto offset = [&](const std::vector<std::int64_t>& counts, int r) {
        std::int64_t n = 0;
        for (int k = 0; k < r; ++k) n += counts[static_cast<std::size_t>(k)];
        return n * width;
      };
      const auto bytes = [&](const std::vector<std::int64_t>& counts, int r) {
        return counts[static_cast<std::size_t>(r)] * width;
      };
      std::int64_t sent = 0;
      for (int k = 1; k < size_; ++k) sent += bytes(sends, to(k));
      Entry entry(ledger_, "all_to_all", sent);
      Messages messages(comm_, requests_, waiting_);
      for (int k = 1; k < size_; ++k)
        messages.receive(bytes_of(receive) + offset(receives, from(k)), bytes(receives, from(k)), from(k));
      for (int k = 1; k < size_; ++k) messages.send(bytes_of(send) + offset(sends, to(k)), bytes(sends, to(k)), to(k));
      if (bytes(sends, rank_) > 0)
        std::memcpy(bytes_of(receive) + offset(receives, rank_), bytes_of(send) + offset(sends, rank_),
                    static_cast<std::size_t>(bytes(sends, rank_)));
      messages.complete();
    });
  }

  void broadcast(tensor::Exec& exec, base::View inout, int root) override {
    exec.run([this, inout, root] {
      Entry entry(ledger_, "broadcast", broadcast_bytes(inout.bytes(), size_, rank_, root));
      in_parts(inout, [&](void* data, int count) {
        check_mpi(MPI_Bcast(data, static_cast<int>(count * base::size_of(inout.dtype)), MPI_BYTE, root, comm_),
                  "MPI_Bcast");
      });
    });
  }

  void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) override {
    std::vector<Transfer> list(transfers.begin(), transfers.end());
    exec.run([this, list = std::move(list)] {
      std::int64_t sent = 0;
      for (const auto& t : list) sent += t.kind == Transfer::Kind::send && t.peer != rank_ ? t.view.bytes() : 0;
      Entry entry(ledger_, "exchange", sent);
      Messages messages(comm_, requests_, waiting_);
      for (const auto& t : list)
        if (t.kind == Transfer::Kind::receive) messages.receive(bytes_of(t.view), t.view.bytes(), t.peer);
      for (const auto& t : list)
        if (t.kind == Transfer::Kind::send) messages.send(bytes_of(t.view), t.view.bytes(), t.peer);
      messages.complete();
    });
  }

  void barrier(tensor::Exec& exec) override {
    exec.run([this] {
      Entry entry(ledger_, "barrier", 0);
      check_mpi(MPI_Barrier(comm_), "MPI_Barrier");
    });
  }

 private:
  int to(int k) const { return (rank_ + k) % size_; }
  int from(int k) const { return (rank_ - k + size_) % size_; }
  template <class Call> void in_parts(const base::View& v, const Call& call) {
    const auto width = base::size_of(v.dtype);
    const auto most = std::max<std::int64_t>(1, message_limit.load() / width);
    for (std::int64_t at = 0; at < v.count(); at += most)
      call(bytes_of(v) + at * width, static_cast<int>(std::min(most, v.count() - at)));
  }

  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  Waiting waiting_;
};

}  // namespace

void MpiRuntime::limit_message_bytes(std::int64_t bytes) { message_limit = bytes; }

std::unique_ptr<Communicator> MpiRuntime::communicator(const std::string& group) {
  std::vector<int> all(static_cast<std::size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  return split(group, all);
}

std::unique_ptr<Communicator> MpiRuntime::split(const std::string& group, const std::vector<int>& ranks) {
  return split(group, ranks, Waiting::busy);
}

std::unique_ptr<Communicator> MpiRuntime::split(const std::string& group, const std::vector<int>& ranks,
                                                Waiting waiting) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  TRAINYARD_ASSERT(own != ranks.end() && std::is_sorted(ranks.begin(), ranks.end()), "rank {} of group {}", rank_,
                   group);
  MPI_Comm made = MPI_COMM_NULL;
  if (static_cast<int>(ranks.size()) == size_) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &made), "MPI_Comm_dup");
  } else {
    MPI_Group world = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    check_mpi(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &part), "MPI_Group_incl");
    check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, part, 0, &made), "MPI_Comm_create_group");
    MPI_Group_free(&part);
    MPI_Group_free(&world);
  }
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return std::make_unique<MpiCommunicator>(group, static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()),
                                           made, waiting);
}

}  // namespace trainyard::comm

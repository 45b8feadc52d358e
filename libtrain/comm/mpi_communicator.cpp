// Collectives over MPI. Data moves by point-to-point messages of our own, so that the ledger's bytes are the bytes on
// the wire. Ranks of one machine read one another's memory instead. Sums that MPI computes (all_reduce, reduce_scatter)
// keep MPI's order.
#include "kernels/ordered_sum/ordered_sum.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/bytes.h"
#include "libtrain/comm/entry.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/mpi_calls.h"
#include "libtrain/comm/mpi_node_memory.h"
#include "libtrain/comm/spin_wait.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

namespace trainyard::comm {

namespace {

std::atomic<std::int64_t> message_limit{std::int64_t{1} << 30};

using Waiting = MpiRuntime::Waiting;

SpinWait spin_wait_of(const tensor::Exec& exec, Waiting waiting) {
  return waiting == Waiting::asleep ? SpinWait::asleep() : SpinWait(exec);
}

// Tests and sleeps, because MPI's own wait keeps a core busy.
void complete(std::vector<MPI_Request>& requests, SpinWait wait) {
  const int count = static_cast<int>(requests.size());
  for (int done = count == 0 ? 1 : 0; done == 0;) {
    check_mpi(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done == 0) wait.sleep();
  }
}

// Messages in flight, in parts up to the limit. Callers post receives before sends, then wait with complete().
class Messages {
 public:
  Messages(MPI_Comm comm, std::vector<MPI_Request>& requests) : comm_(comm), requests_(requests) { requests_.clear(); }
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

 private:
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
};

void copy_bytes_of(char* to, const char* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, base::size(bytes));
}

// MPI has no narrow dtypes, so these operations widen to f32 and round once for each addition.
template <class T, Reduction op> void combine_narrow_values(void* from, void* into, int* count, MPI_Datatype*) {
  const auto* in = static_cast<const T*>(from);
  auto* out = static_cast<T*>(into);
  for (int i = 0; i < *count; ++i) {
    const auto a = static_cast<float>(in[i]), b = static_cast<float>(out[i]);
    out[i] = T(op == Reduction::sum ? a + b : op == Reduction::max ? std::max(a, b) : std::min(a, b));
  }
}

template <class T, Reduction op> MPI_Op narrow_op() {
  static const MPI_Op made = [] {
    MPI_Op o = MPI_OP_NULL;
    check_mpi(MPI_Op_create(combine_narrow_values<T, op>, 1, &o), "MPI_Op_create");
    return o;
  }();
  return made;
}

template <Reduction op> MPI_Op op_for(base::DType dtype, MPI_Op of_mpi) {
  return base::with_value_type(dtype, [of_mpi]<class T>(T*) {
    if constexpr (std::is_arithmetic_v<T>) return of_mpi;
    else return narrow_op<T, op>();
  });
}

MPI_Op op_of(Reduction op, base::DType dtype) {
  switch (op) {
    case Reduction::sum: return op_for<Reduction::sum>(dtype, MPI_SUM);
    case Reduction::max: return op_for<Reduction::max>(dtype, MPI_MAX);
    case Reduction::min: return op_for<Reduction::min>(dtype, MPI_MIN);
  }
  return MPI_OP_NULL;
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(std::string group, int rank, int size, MPI_Comm comm, Waiting waiting,
                  std::unique_ptr<NodeMemory> node)
      : Communicator(std::move(group), rank, size), comm_(comm), waiting_(waiting), node_(std::move(node)) {
    requests_.reserve(4096 / sizeof(MPI_Request));
    shards_.reserve(base::size(size));
  }
  ~MpiCommunicator() override = default;  // the MPI communicator lives until finalize: freeing it would communicate

  void all_reduce(tensor::Exec& exec, base::View inout, Reduction op) override {
    exec.run([this, &exec, inout, op] {
      Entry entry(ledger_, "all_reduce", all_reduce_bytes(inout.bytes(), size_));
      const auto native = op_of(op, inout.dtype);
      arrive(exec, "all_reduce", inout.bytes());
      in_parts(inout, [&](void* data, int count) {
        check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, count, mpi_type(inout.dtype), native, comm_), "MPI_Allreduce");
      });
    });
  }

  void all_gather(tensor::Exec& exec, base::View in, base::View out) override {
    gather_range(exec, in, out, 0, in.count());
  }

  // By messages: in step k every rank sends its shard to rank + k and receives the shard of rank - k.
  bool gather_range(tensor::Exec& exec, base::View in, base::View out, std::int64_t first,
                    std::int64_t count) override {
    require_shards("all_gather", out, in);
    exec.run([this, &exec, in, out, first, count] {
      const auto width = base::size_of(in.dtype), bytes = count * width, shard = in.bytes();
      Entry entry(ledger_, "all_gather", all_gather_bytes(bytes, size_));
      const auto of = [&](int r) { return bytes_of(out) + r * shard + first * width; };
      const auto mine = in.elements(first, count);
      copy_bytes_of(of(rank_), bytes_of(mine), bytes);
      if (node_ && node_->rendezvous({"all_gather", bytes}, mine, exec)) {
        for (int k = 1; k < size_; ++k) copy_bytes_of(of(from(k)), node_->of(from(k)), bytes);
        return node_->leave(exec);
      }
      Messages messages(comm_, requests_);
      for (int k = 1; k < size_; ++k) messages.receive(of(from(k)), bytes, from(k));
      for (int k = 1; k < size_; ++k) messages.send(of(rank_), bytes, to(k));
      complete(requests_, spin_wait_of(exec, waiting_));
    });
    return true;
  }

  // Where ranks can read one another's memory, contributions are added where they lie.
  bool add_contributions(tensor::Exec& exec, const OrderedReduction& all, std::int64_t first,
                         std::int64_t count) override {
    if (!node_) return false;
    exec.run([this, &exec, all, first, count,
              reduction_positions = std::vector(all.reduction_positions.begin(), all.reduction_positions.end())] {
      const auto reduction_position = [&](int rank) {
        return reduction_positions.empty() ? rank : base::at(reduction_positions, rank);
      };
      const bool contributes = reduction_position(rank_) < all.contributors;
      const auto width = base::size_of(all.sum.dtype), shard = all.shard_elements() * width, bytes = count * width;
      TRAINYARD_ASSERT(
          all.contributors >= 1 && all.contributors <= size_ && (!contributes || all.in.bytes() == size_ * shard),
          "{} bytes for shards of {}, {} contributors of {}", all.in.bytes(), shard, all.contributors, size_);
      Entry entry(ledger_, "ordered_reduce_scatter", contributes ? (size_ - 1) * bytes : 0);
      const auto sum = all.sum_of(first, count);
      const auto shown = contributes ? all.in : base::View{};
      if (node_->rendezvous({"ordered_reduce_scatter", bytes, all.contributors}, shown, exec)) {
        if (bytes > 0) add_in_place(exec, all, first, count, reduction_position);
        return node_->leave(exec);
      }
      const auto staged = [&](int rank) { return bytes_of(all.staging) + reduction_position(rank) * bytes; };
      const auto part = [&](int rank) { return bytes_of(all.in) + rank * shard + first * width; };
      TRAINYARD_ASSERT(all.staging.bytes() >= all.contributors * bytes, "{} contributions of {} bytes in {}",
                       all.contributors, bytes, all.staging.bytes());
      Messages messages(comm_, requests_);
      for (int k = 1; k < size_; ++k)
        if (reduction_position(from(k)) < all.contributors) messages.receive(staged(from(k)), bytes, from(k));
      for (int k = 1; contributes && k < size_; ++k) messages.send(part(to(k)), bytes, to(k));
      if (contributes) copy_bytes_of(staged(rank_), part(rank_), bytes);
      complete(requests_, spin_wait_of(exec, waiting_));
      kernels::ordered_sum(here(exec), base::View(all.staging.data, sum.dtype, {all.contributors, count}), sum,
                           all.round);
    });
    return true;
  }

  void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) override {
    require_shards("reduce_scatter", in, out);
    exec.run([this, &exec, in, out] {
      Entry entry(ledger_, "reduce_scatter", reduce_scatter_bytes(out.bytes(), size_));
      arrive(exec, "reduce_scatter", out.bytes());
      const auto type = mpi_type(out.dtype);
      const auto sum = op_of(Reduction::sum, out.dtype);
      if (in.bytes() <= message_limit.load())
        return check_mpi(MPI_Reduce_scatter_block(in.data, out.data, static_cast<int>(out.count()), type, sum, comm_),
                         "MPI_Reduce_scatter_block");
      // MPI counts all shards together in an int, so a larger input is reduced shard by shard, each to its owner.
      for (int owner = 0; owner < size_; ++owner) {
        const auto shard = in.elements(owner * out.count(), out.count());
        in_parts(shard, [&](void* data, int count) {
          auto* const to = bytes_of(out) + (static_cast<char*>(data) - bytes_of(shard));
          check_mpi(MPI_Reduce(data, owner == rank_ ? to : nullptr, count, type, sum, owner, comm_), "MPI_Reduce");
        });
      }
    });
  }

  void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    require_counts(send_counts, receive_counts);
    std::vector<std::int64_t> sends(send_counts.begin(), send_counts.end()),
        receives(receive_counts.begin(), receive_counts.end());
    exec.run([this, &exec, send, receive, sends = std::move(sends), receives = std::move(receives)] {
      const auto width = base::size_of(receive.dtype);
      const auto offset = [&](const std::vector<std::int64_t>& counts, int r) {
        std::int64_t n = 0;
        for (int k = 0; k < r; ++k) n += base::at(counts, k);
        return n * width;
      };
      const auto bytes = [&](const std::vector<std::int64_t>& counts, int r) { return base::at(counts, r) * width; };
      std::int64_t sent = 0;
      for (int k = 1; k < size_; ++k) sent += bytes(sends, to(k));
      Entry entry(ledger_, "all_to_all", sent);
      Messages messages(comm_, requests_);
      for (int k = 1; k < size_; ++k)
        messages.receive(bytes_of(receive) + offset(receives, from(k)), bytes(receives, from(k)), from(k));
      for (int k = 1; k < size_; ++k) messages.send(bytes_of(send) + offset(sends, to(k)), bytes(sends, to(k)), to(k));
      copy_bytes_of(bytes_of(receive) + offset(receives, rank_), bytes_of(send) + offset(sends, rank_),
                    bytes(sends, rank_));
      complete(requests_, spin_wait_of(exec, waiting_));
    });
  }

  void broadcast(tensor::Exec& exec, base::View inout, int root) override {
    require_rank("broadcast", root);
    exec.run([this, &exec, inout, root] {
      Entry entry(ledger_, "broadcast", broadcast_bytes(inout.bytes(), size_, rank_, root));
      arrive(exec, "broadcast", inout.bytes());
      in_parts(inout, [&](void* data, int count) {
        check_mpi(MPI_Bcast(data, static_cast<int>(count * base::size_of(inout.dtype)), MPI_BYTE, root, comm_),
                  "MPI_Bcast");
      });
    });
  }

  void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) override {
    require_peers(transfers);
    std::vector<Transfer> list(transfers.begin(), transfers.end());
    exec.run([this, &exec, list = std::move(list)] {
      std::int64_t sent = 0;
      for (const auto& t : list) sent += t.kind == Transfer::Kind::send && t.peer != rank_ ? t.view.bytes() : 0;
      Entry entry(ledger_, "exchange", sent);
      Messages messages(comm_, requests_);
      for (const auto& t : list)
        if (t.kind == Transfer::Kind::receive) messages.receive(bytes_of(t.view), t.view.bytes(), t.peer);
      for (const auto& t : list)
        if (t.kind == Transfer::Kind::send) messages.send(bytes_of(t.view), t.view.bytes(), t.peer);
      complete(requests_, spin_wait_of(exec, waiting_));
    });
  }

  void barrier(tensor::Exec& exec) override {
    exec.run([this, &exec] {
      Entry entry(ledger_, "barrier", 0);
      arrive(exec, "barrier", 0);
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

  // Waits until all ranks are here, without keeping a core busy. MPI's collectives keep a core busy while they wait,
  // and after this they have nobody to wait for.
  void arrive(const tensor::Exec& exec, const char* operation, std::int64_t bytes) {
    if (size_ == 1) return;
    if (node_) {
      node_->rendezvous({operation, bytes}, {}, exec);
      return;
    }
    requests_.assign(1, MPI_REQUEST_NULL);
    check_mpi(MPI_Ibarrier(comm_, requests_.data()), "MPI_Ibarrier");
    complete(requests_, spin_wait_of(exec, waiting_));
  }

  template <class Position> void add_in_place(tensor::Exec& exec, const OrderedReduction& all, std::int64_t first,
                                              std::int64_t count, const Position& reduction_position) {
    shards_.assign(base::size(all.contributors), nullptr);
    for (int r = 0; r < size_; ++r)
      if (reduction_position(r) < all.contributors)
        base::at(shards_, reduction_position(r)) =
            node_->of(r) + (rank_ * all.shard_elements() + first) * base::size_of(all.sum.dtype);
    kernels::ordered_sum(here(exec), shards_, all.sum_of(first, count), all.round);
  }

  // An Exec with as many threads as `exec`, for work inside a work item of `exec`.
  tensor::Exec& here(const tensor::Exec& exec) {
    if (!here_ || here_->threads() != exec.threads()) here_ = tensor::Exec::caller(nullptr, exec.threads());
    return *here_;
  }

  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  Waiting waiting_;
  std::unique_ptr<NodeMemory> node_;  // null: messages only
  std::vector<const void*> shards_;   // by position in the reduction order
  std::unique_ptr<tensor::Exec> here_;
};

}  // namespace

void MpiRuntime::limit_message_bytes(std::int64_t bytes) { message_limit = bytes; }

std::unique_ptr<Communicator> MpiRuntime::communicator(const std::string& group) {
  std::vector<int> all(base::size(size_));
  std::iota(all.begin(), all.end(), 0);
  return split(group, all);
}

std::unique_ptr<Communicator> MpiRuntime::split(const std::string& group, const std::vector<int>& ranks) {
  return split(group, ranks, Waiting::patient);
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
                                           made, waiting,
                                           waiting == Waiting::patient ? node_->memory(group, ranks, made) : nullptr);
}

}  // namespace trainyard::comm

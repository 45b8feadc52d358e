// Collectives over NCCL. Data moves by NCCL's own all_gather, or by grouped sends and receives of bytes. So the
// ledger's bytes are the bytes that leave the GPU.
#include "libtrain/base/index.h"
#include "libtrain/comm/bytes.h"
#include "libtrain/comm/entry.h"
#include "libtrain/comm/nccl.h"
#include "libtrain/comm/nccl_library.h"
#include "libtrain/tensor/device_buffer.h"
#include "libtrain/tensor/gpu.h"

#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"

#include <mutex>
#include <utility>
#include <vector>

namespace trainyard::comm {

namespace {

const nccl::Library& require_library() {
  const auto* found = nccl::library();
  if (found == nullptr)
    throw base::EnvironmentError(
        fmt::format("NCCL cannot be opened: {}", nccl::refusal()),
        base::text("install it, set TRAINYARD_NCCL_LIBRARY to its path, or use $communicator mpi"));
  return *found;
}

nccl::Type type_of(base::DType t) {
  for (const auto& [dtype, type] : nccl::types)
    if (dtype == t) return type;
  throw base::Unsupported(fmt::format("NCCL does not add {}", base::name_of(t)), "use f32");
}

nccl::Op nccl_op(Reduction op) {
  return op == Reduction::sum ? nccl::sum : op == Reduction::max ? nccl::max : nccl::min;
}

// An NCCL communicator, and whether it has failed. Several groups may share one. A thread that calls NCCL with it holds
// `mutex`, because an abort frees it, and another thread may be in the middle of a call.
struct Connection {
  explicit Connection(nccl::Comm* c) : lib(require_library()), comm(c) {}
  // The process ends or the run is over. Nothing may wait for peers then, so an open communicator is aborted, not
  // finalized.
  ~Connection() { fail(); }
  void fail() {
    if (!std::exchange(failed, true)) lib.abort(comm);  // releases work that waits on the device
  }
  // success, or an error that came up asynchronously. Not to be called after fail().
  nccl::Result state() const {
    nccl::Result state = nccl::success;
    if (const auto asked = lib.async_error(comm, &state); asked != nccl::success) return asked;
    return state == nccl::in_progress ? nccl::success : state;
  }
  const nccl::Library& lib;
  nccl::Comm* comm;
  std::mutex mutex;
  bool failed = false;
};

class Nccl : public Communicator {
 public:
  Nccl(std::string group, int rank, int size, std::shared_ptr<Connection> connection, int device)
      : Communicator(std::move(group), rank, size), connection_(std::move(connection)), lib_(connection_->lib),
        comm_(connection_->comm), device_(device), flag_(device, 64, "reserving a flag") {
    ledger_.set_pending([this] { return pending(); });
  }
  ~Nccl() override { ledger_.set_pending({}); }

  void all_reduce(tensor::Exec& exec, base::View inout, Reduction op) override {
    call(exec, "all_reduce", all_reduce_bytes(inout.bytes(), size_), inout.count() > 0, [&](void* stream) {
      return lib_.all_reduce(inout.data, inout.data, base::size(inout.count()), type_of(inout.dtype), nccl_op(op),
                             comm_, stream);
    });
  }
  void all_gather(tensor::Exec& exec, base::View in, base::View out) override {
    require_shards("all_gather", out, in);
    call(exec, "all_gather", all_gather_bytes(in.bytes(), size_), in.count() > 0, [&](void* stream) {
      return lib_.all_gather(in.data, out.data, base::size(in.bytes()), nccl::u8, comm_, stream);
    });
  }
  void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) override {
    require_shards("reduce_scatter", in, out);
    call(exec, "reduce_scatter", reduce_scatter_bytes(out.bytes(), size_), out.count() > 0, [&](void* stream) {
      return lib_.reduce_scatter(in.data, out.data, base::size(out.count()), type_of(out.dtype), nccl::sum, comm_,
                                 stream);
    });
  }
  void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    require_counts(send_counts, receive_counts);
    const auto width = base::size_of(receive.dtype);
    std::int64_t sent = 0;
    for (int r = 0; r < size_; ++r) sent += r == rank_ ? 0 : base::at(send_counts, r) * width;
    call(exec, "all_to_all", sent, true, [&](void* stream) {
      Grouped group(lib_);
      std::int64_t from = 0, to = 0;
      for (int r = 0; r < size_; ++r) {
        const auto out = base::at(send_counts, r) * width, in = base::at(receive_counts, r) * width;
        if (r == rank_) {
          if (out > 0) own_ = {bytes_of(receive) + to, bytes_of(send) + from, out};
        } else {
          group.send(bytes_of(send) + from, out, r, comm_, stream);
          group.receive(bytes_of(receive) + to, in, r, comm_, stream);
        }
        from += out, to += in;
      }
      const auto result = group.end();
      move_own(stream);
      return result;
    });
  }
  void broadcast(tensor::Exec& exec, base::View inout, int root) override {
    require_rank("broadcast", root);
    call(exec, "broadcast", broadcast_bytes(inout.bytes(), size_, rank_, root), inout.count() > 0, [&](void* stream) {
      return lib_.broadcast(inout.data, inout.data, base::size(inout.bytes()), nccl::u8, root, comm_, stream);
    });
  }
  void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) override {
    require_peers(transfers);
    std::int64_t sent = 0;
    for (const auto& t : transfers) sent += t.kind == Transfer::Kind::send && t.peer != rank_ ? t.view.bytes() : 0;
    call(exec, "exchange", sent, true, [&](void* stream) { return in_groups(transfers, stream); });
  }
  const std::shared_ptr<Connection>& connection() const { return connection_; }
  int device() const { return device_; }
  void barrier(tensor::Exec& exec) override {
    call(exec, "barrier", 0, true, [&](void* stream) {
      return lib_.all_reduce(flag_.data(), flag_.data(), 1, nccl::i32, nccl::max, comm_, stream);
    });
    exec.synchronize();
  }

 private:
  // A group of NCCL takes at most 2,048 sends and receives. The n-th message of two ranks is in the same group on both
  // sides, so no group waits for a later one.
  nccl::Result in_groups(std::span<const Transfer> transfers, void* stream) {
    const std::int64_t of_a_pair = std::max(1, 1024 / size_);
    bool more = true;
    for (std::int64_t first = 0; more; first += of_a_pair) {
      more = false;
      std::vector<std::int64_t> sends(base::size(size_)), receives(base::size(size_));
      Grouped group(lib_);
      for (const auto& t : transfers) {
        const bool is_send = t.kind == Transfer::Kind::send;
        const auto n = base::at(is_send ? sends : receives, t.peer)++;
        more = more || n >= first + of_a_pair;
        if (n < first || n >= first + of_a_pair) continue;
        if (is_send) group.send(t.view.data, t.view.bytes(), t.peer, comm_, stream);
        else group.receive(t.view.data, t.view.bytes(), t.peer, comm_, stream);
      }
      if (const auto result = group.end(); result != nccl::success) return result;
    }
    return nccl::success;
  }

  // Sends and receives that NCCL starts together.
  class Grouped {
   public:
    explicit Grouped(const nccl::Library& lib) : lib_(lib) { note(lib_.group_start()); }
    void send(const void* data, std::int64_t bytes, int peer, nccl::Comm* comm, void* stream) {
      if (bytes > 0) note(lib_.send(data, base::size(bytes), nccl::u8, peer, comm, stream));
    }
    void receive(void* data, std::int64_t bytes, int peer, nccl::Comm* comm, void* stream) {
      if (bytes > 0) note(lib_.receive(data, base::size(bytes), nccl::u8, peer, comm, stream));
    }
    nccl::Result end() {
      note(lib_.group_end());
      return first_;
    }

   private:
    void note(nccl::Result r) {
      if (first_ == nccl::success) first_ = r;
    }
    const nccl::Library& lib_;
    nccl::Result first_ = nccl::success;
  };

  template <class Issue>
  void call(tensor::Exec& exec, const char* operation, std::int64_t sent, bool anything, const Issue& issue) {
    TRAINYARD_ASSERT(exec.on_gpu(), "{} of device memory on a CPU Exec", operation);
    const std::lock_guard alone(connection_->mutex);
    refuse_after_failure(operation);
    Entry entry(ledger_, operation, sent);
    const tensor::Span span(exec);
    if (anything)
      if (const auto result = issue(exec.stream()); result != nccl::success)
        throw base::PeerError(
            fmt::format("group {}: NCCL cannot start {}: {}", group_, operation, lib_.error_text(result)),
            "NCCL_DEBUG=WARN says more; did a rank end?");
    std::lock_guard lock(mutex_);
    last_ = exec.record();
  }

  void refuse_after_failure(const char* operation) {
    if (connection_->failed)
      throw base::PeerError(fmt::format("group {}: {} follows a failed collective", group_, operation),
                            "a rank ended, or its network failed: see the logs of the others");
    const auto state = connection_->state();
    if (state == nccl::success) return;
    connection_->fail();
    throw base::PeerError(fmt::format("group {}: NCCL failed before {}: {}", group_, operation, lib_.error_text(state)),
                          "NCCL_DEBUG=WARN says more; did a rank end?");
  }

  // The watchdog asks: is the device still busy with the last call? While another thread is inside NCCL, the connection
  // is not checked. That thread's call fails by itself, or stays open for so long that the watchdog ends the job.
  bool pending() {
    if (const std::unique_lock alone(connection_->mutex, std::try_to_lock); alone) {
      if (!connection_->failed && connection_->state() != nccl::success) connection_->fail();
      if (connection_->failed) return false;
    }
    std::lock_guard lock(mutex_);
    try {
      return !last_.done();
    } catch (const base::Error&) {
      return false;  // the device failed: the compute thread learns of it from its stream
    }
  }

  struct Own {
    char *to = nullptr, *from = nullptr;
    std::int64_t bytes = 0;
  };
  void move_own(void* stream) {
    if (own_.bytes > 0)
      tensor::require_gpu(tensor::gpu_module().runtime->copy(own_.to, own_.from, own_.bytes, stream),
                          "copying the own part");
    own_ = {};
  }

  std::shared_ptr<Connection> connection_;
  const nccl::Library& lib_;
  nccl::Comm* comm_;
  int device_;
  tensor::DeviceBuffer flag_;
  Own own_;
  std::mutex mutex_;  // guards last_
  tensor::Event last_;
};

}  // namespace

bool nccl_available() { return nccl::library() != nullptr; }

std::string nccl_version() {
  int v = 0;
  require_library().get_version(&v);
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::unique_ptr<Communicator> make_nccl(std::string group, int device, Communicator& control) {
  const auto& lib = require_library();
  tensor::gpu_info(device);  // also makes it the current device of this thread
  auto host = tensor::Exec::caller(nullptr, 1);
  struct {
    nccl::UniqueId id{};
    std::int32_t result = nccl::success;
  } first;  // sent also after a failure, because the other ranks wait for it
  if (control.rank() == 0) first.result = lib.get_unique_id(&first.id);
  control.broadcast(*host, base::View(&first, base::DType::u8, {sizeof first}), 0);
  if (first.result != nccl::success)
    throw base::EnvironmentError(
        fmt::format("NCCL gives no id: {}", lib.error_text(static_cast<nccl::Result>(first.result))),
        "NCCL_DEBUG=WARN says more");
  nccl::Comm* comm = nullptr;
  if (const auto r = lib.init_rank(&comm, control.size(), first.id, control.rank()); r != nccl::success)
    throw base::EnvironmentError(
        fmt::format("NCCL cannot join {} ranks: {}", control.size(), lib.error_text(r)),
        base::text("one GPU for each rank is needed (else $communicator mpi); NCCL_DEBUG=WARN says more"));
  return std::make_unique<Nccl>(std::move(group), control.rank(), control.size(), std::make_shared<Connection>(comm),
                                device);
}

std::unique_ptr<Communicator> nccl_group(std::string group, Communicator& of) {
  auto& nccl = dynamic_cast<Nccl&>(of);
  return std::make_unique<Nccl>(std::move(group), of.rank(), of.size(), nccl.connection(), nccl.device());
}

}  // namespace trainyard::comm

// Copies to the host, communicates there, and copies back to the device.
#include "libtrain/comm/staged.h"

#include "libtrain/base/error.h"
#include "libtrain/tensor/device_buffer.h"

#include <numeric>
#include <utility>
#include <vector>

namespace trainyard::comm {

namespace {

// Pinned memory that grows.
class Pinned {
 public:
  char* of(std::int64_t bytes) {
    if (bytes > bytes_) {
      memory_ = {};  // freed first: the old and the new memory may not fit together
      bytes_ = 0;
      memory_ = tensor::PinnedBuffer(bytes);
      bytes_ = bytes;
    }
    return memory_.data<char>();
  }

 private:
  tensor::PinnedBuffer memory_;
  std::int64_t bytes_ = 0;
};

class Staged : public Communicator {
 public:
  explicit Staged(Communicator& inner) : Communicator(inner.group(), inner.rank(), inner.size()), inner_(&inner) {}
  explicit Staged(std::unique_ptr<Communicator> inner) : Staged(*inner) { owned_ = std::move(inner); }
  ~Staged() override {
    try {
      on_the_way_.wait();
    } catch (const base::Error&) {
      // The device failed; the thread that waited for it has reported that.
    }
  }

  void all_reduce(tensor::Exec& exec, base::View inout, Reduction op) override {
    if (!exec.on_gpu()) return inner_->all_reduce(exec, inout, op);
    const tensor::Span span(exec);
    on_the_way_.wait();
    const auto host = down(exec, inout, sent_);
    exec.synchronize();
    inner_->all_reduce(*caller_, host, op);
    up(exec, host, inout);
  }
  void all_gather(tensor::Exec& exec, base::View in, base::View out) override {
    if (!exec.on_gpu()) return inner_->all_gather(exec, in, out);
    const tensor::Span span(exec);
    on_the_way_.wait();
    const auto host = down(exec, in, sent_), gathered = like(out, received_);
    exec.synchronize();
    inner_->all_gather(*caller_, host, gathered);
    up(exec, gathered, out);
  }
  void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) override {
    if (!exec.on_gpu()) return inner_->reduce_scatter(exec, in, out);
    const tensor::Span span(exec);
    on_the_way_.wait();
    const auto host = down(exec, in, sent_), mine = like(out, received_);
    exec.synchronize();
    inner_->reduce_scatter(*caller_, host, mine);
    up(exec, mine, out);
  }
  void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    if (!exec.on_gpu()) return inner_->all_to_all(exec, send, send_counts, receive, receive_counts);
    const tensor::Span span(exec);
    on_the_way_.wait();
    const auto part = [](const base::View& v, std::span<const std::int64_t> counts) {
      return base::View(v.data, v.dtype, {std::accumulate(counts.begin(), counts.end(), std::int64_t{0})}, v.device);
    };
    const auto from = part(send, send_counts), to = part(receive, receive_counts);
    const auto host = down(exec, from, sent_), arrived = like(to, received_);
    exec.synchronize();
    inner_->all_to_all(*caller_, host, send_counts, arrived, receive_counts);
    up(exec, arrived, to);
  }
  void broadcast(tensor::Exec& exec, base::View inout, int root) override {
    if (!exec.on_gpu()) return inner_->broadcast(exec, inout, root);
    const tensor::Span span(exec);
    on_the_way_.wait();
    const auto host = down(exec, inout, sent_);
    exec.synchronize();
    inner_->broadcast(*caller_, host, root);
    up(exec, host, inout);
  }
  void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) override {
    if (!exec.on_gpu()) return inner_->exchange(exec, transfers);
    const tensor::Span span(exec);
    on_the_way_.wait();
    std::int64_t bytes = 0;
    for (const auto& t : transfers) bytes += base::aligned(t.view.bytes());
    char* at = sent_.of(bytes);
    std::vector<Transfer> host;
    for (const auto& t : transfers) {
      host.push_back({t.kind, t.peer, base::View(at, t.view.dtype, {t.view.count()})});
      at += base::aligned(t.view.bytes());
      if (t.kind == Transfer::Kind::send) tensor::copy(exec, flat(t.view), host.back().view);
    }
    exec.synchronize();
    inner_->exchange(*caller_, host);
    for (std::size_t i = 0; i < host.size(); ++i)
      if (host[i].kind == Transfer::Kind::receive) tensor::copy(exec, host[i].view, flat(transfers[i].view));
    on_the_way_ = exec.record();
  }
  void barrier(tensor::Exec& exec) override {
    if (exec.on_gpu()) exec.synchronize();
    inner_->barrier(exec.on_gpu() ? *caller_ : exec);
  }
  const Ledger& ledger() const override { return std::as_const(*inner_).ledger(); }
  Ledger& ledger() override { return inner_->ledger(); }

 private:
  static base::View flat(const base::View& v) { return v.reshaped({v.count()}); }
  static base::View like(const base::View& v, Pinned& memory) {
    return base::View(memory.of(v.bytes()), v.dtype, {v.count()});
  }
  base::View down(tensor::Exec& exec, const base::View& from, Pinned& memory) {
    const auto host = like(from, memory);
    tensor::copy(exec, flat(from), host);
    return host;
  }
  // The next call uses the host's buffers again, and waits for this copy.
  void up(tensor::Exec& exec, const base::View& host, const base::View& to) {
    tensor::copy(exec, host, flat(to));
    on_the_way_ = exec.record();
  }

  std::unique_ptr<Communicator> owned_;
  Communicator* inner_;
  std::unique_ptr<tensor::Exec> caller_ = tensor::Exec::caller(nullptr, 1);
  Pinned sent_, received_;
  tensor::Event on_the_way_;  // the copy from the host's buffers to the device
};

}  // namespace

std::unique_ptr<Communicator> staged(std::unique_ptr<Communicator> inner) {
  return std::make_unique<Staged>(std::move(inner));
}
std::unique_ptr<Communicator> staged(Communicator& inner) { return std::make_unique<Staged>(inner); }

}  // namespace trainyard::comm

// Lets the contract, whose operands are vectors on the host, test a communicator of device memory: copies its operands
// to the device, calls the communicator, and copies the results back.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/tensor/device_buffer.h"

#include <numeric>
#include <utility>
#include <vector>

namespace trainyard::comm {

class OnDevice : public Communicator {
 public:
  OnDevice(std::unique_ptr<Communicator> inner, int device)
      : Communicator(inner->group(), inner->rank(), inner->size()), inner_(std::move(inner)),
        exec_(tensor::Exec::gpu(device, nullptr)), device_(device) {}

  void all_reduce(tensor::Exec&, base::View inout, Reduction op) override {
    const Copy a(*this, inout);
    inner_->all_reduce(*exec_, a.view, op);
    a.back(inout);
  }
  // `in` may be this rank's own shard of `out`.
  void all_gather(tensor::Exec&, base::View in, base::View out) override {
    const Copy b(*this, out), a(*this, in);
    const bool inside = in.data >= out.data && static_cast<char*>(in.data) < static_cast<char*>(out.data) + out.bytes();
    auto from = a.view;
    if (inside)
      from.data = static_cast<char*>(b.view.data) + (static_cast<char*>(in.data) - static_cast<char*>(out.data));
    inner_->all_gather(*exec_, from, b.view);
    b.back(out);
  }
  void reduce_scatter(tensor::Exec&, base::View in, base::View out) override {
    const Copy a(*this, in), b(*this, out);
    inner_->reduce_scatter(*exec_, a.view, b.view);
    b.back(out);
  }
  void all_to_all(tensor::Exec&, base::View send, std::span<const std::int64_t> sends, base::View receive,
                  std::span<const std::int64_t> receives) override {
    const auto part = [](const base::View& v, std::span<const std::int64_t> counts) {
      return base::View(v.data, v.dtype, {std::accumulate(counts.begin(), counts.end(), std::int64_t{0})});
    };
    const auto to = part(receive, receives);
    const Copy a(*this, part(send, sends)), b(*this, to);
    inner_->all_to_all(*exec_, a.view, sends, b.view, receives);
    b.back(to);
  }
  void broadcast(tensor::Exec&, base::View inout, int root) override {
    const Copy a(*this, inout);
    inner_->broadcast(*exec_, a.view, root);
    a.back(inout);
  }
  void exchange(tensor::Exec&, std::span<const Transfer> transfers) override {
    std::vector<std::unique_ptr<Copy>> copies;
    std::vector<Transfer> moved;
    for (const auto& t : transfers) {
      copies.push_back(std::make_unique<Copy>(*this, t.view));
      moved.push_back({t.kind, t.peer, copies.back()->view});
    }
    inner_->exchange(*exec_, moved);
    for (std::size_t i = 0; i < moved.size(); ++i)
      if (moved[i].kind == Transfer::Kind::receive) copies[i]->back(transfers[i].view);
  }
  void barrier(tensor::Exec&) override { inner_->barrier(*exec_); }
  const Ledger& ledger() const override { return std::as_const(*inner_).ledger(); }
  Ledger& ledger() override { return inner_->ledger(); }

 private:
  // Device memory with the content of a view on the host.
  struct Copy {
    Copy(OnDevice& o, const base::View& host) : owner(o), memory(o.device_, host.bytes() + 1, "allocating") {
      view = base::View(memory.data(), host.dtype, {host.count()}, o.exec_->device());
      tensor::copy(*o.exec_, host.reshaped({host.count()}), view);
    }
    void back(const base::View& host) const {
      tensor::copy(*owner.exec_, view, host.reshaped({host.count()}));
      owner.exec_->synchronize();
    }
    OnDevice& owner;
    tensor::DeviceBuffer memory;
    base::View view;
  };
  std::unique_ptr<Communicator> inner_;
  std::unique_ptr<tensor::Exec> exec_;
  int device_;
};

}  // namespace trainyard::comm

// A communicator whose calls take a known time, or whose results are wrong on purpose.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/comm/threads.h"
#include "libtrain/profile/ranks.h"
#include "tests/simulated_clock.h"

#include <functional>
#include <memory>
#include <utility>

namespace trainyard::testing {

// What is done around a call of `inner`: `before` it, with the bytes of the larger buffer; `after` it, to its result.
struct Meddling {
  std::function<void(std::int64_t bytes)> before;
  std::function<void(base::View result)> after;
};

class KnownLink : public comm::Communicator {
 public:
  KnownLink(std::unique_ptr<comm::Communicator> inner, Meddling m)
      : Communicator(inner->group(), inner->rank(), inner->size()), inner_(std::move(inner)), m_(std::move(m)) {}
  void all_reduce(tensor::Exec& e, base::View inout, comm::Reduction op) override {
    begin(inout);
    inner_->all_reduce(e, inout, op);
    end(inout);
  }
  void all_gather(tensor::Exec& e, base::View in, base::View out) override {
    begin(out);
    inner_->all_gather(e, in, out);
    end(out);
  }
  void reduce_scatter(tensor::Exec& e, base::View in, base::View out) override {
    begin(in);
    inner_->reduce_scatter(e, in, out);
    end(out);
  }
  void all_to_all(tensor::Exec& e, base::View send, std::span<const std::int64_t> sends, base::View receive,
                  std::span<const std::int64_t> receives) override {
    begin(receive);
    inner_->all_to_all(e, send, sends, receive, receives);
    end(receive);
  }
  void broadcast(tensor::Exec& e, base::View inout, int root) override {
    begin(inout);
    inner_->broadcast(e, inout, root);
    end(inout);
  }
  void exchange(tensor::Exec& e, std::span<const comm::Transfer> transfers) override {
    begin(transfers[0].view);
    inner_->exchange(e, transfers);
    end(transfers[1].view);
  }
  void barrier(tensor::Exec& e) override { inner_->barrier(e); }
  comm::Ledger& ledger() override { return inner_->ledger(); }

 private:
  void begin(const base::View& v) {
    if (m_.before) m_.before(v.bytes());
  }
  void end(const base::View& v) {
    if (m_.after) m_.after(v);
  }
  std::unique_ptr<comm::Communicator> inner_;
  Meddling m_;
};

// The ranks of a world of threads. `meddling` returns what is done around the calls of a rank.
inline profile::Ranks ranks_of(int rank, comm::ThreadsWorld& world,
                               const std::function<Meddling(int rank)>& meddling = {}) {
  profile::Ranks r("threads", rank, plan::Topology({{plan::Axis::data, world.size()}}), world.factory(rank));
  r.clock = std::make_shared<SimulatedClock>();
  r.exec = tensor::Exec::caller(nullptr, 1);
  r.between = [&world, rank, meddling](const std::string& name,
                                       const std::vector<int>& members) -> std::unique_ptr<comm::Communicator> {
    auto inner = world.split(rank, name, members);
    if (!meddling) return inner;
    return std::make_unique<KnownLink>(std::move(inner), meddling(rank));
  };
  return r;
}

}  // namespace trainyard::testing

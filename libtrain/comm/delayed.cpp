// Runs the delay, then the real call.
#include "libtrain/comm/delayed.h"

#include <chrono>
#include <thread>
#include <utility>

namespace trainyard::comm {

namespace {

class Delayed : public Communicator {
 public:
  Delayed(std::unique_ptr<Communicator> inner, std::function<void()> before_each)
      : Communicator(inner->group(), inner->rank(), inner->size()), inner_(std::move(inner)),
        before_each_(std::move(before_each)) {}

  void all_reduce(tensor::Exec& exec, base::View inout, Reduction op) override {
    after(exec).all_reduce(exec, inout, op);
  }
  void all_gather(tensor::Exec& exec, base::View in, base::View out) override { after(exec).all_gather(exec, in, out); }
  void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) override {
    after(exec).reduce_scatter(exec, in, out);
  }
  void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    after(exec).all_to_all(exec, send, send_counts, receive, receive_counts);
  }
  void broadcast(tensor::Exec& exec, base::View inout, int root) override { after(exec).broadcast(exec, inout, root); }
  void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) override {
    after(exec).exchange(exec, transfers);
  }
  void barrier(tensor::Exec& exec) override { after(exec).barrier(exec); }
  const Ledger& ledger() const override { return std::as_const(*inner_).ledger(); }
  Ledger& ledger() override { return inner_->ledger(); }

 private:
  Communicator& after(tensor::Exec& exec) {
    exec.run([this] { before_each_(); });
    return *inner_;
  }
  std::unique_ptr<Communicator> inner_;
  std::function<void()> before_each_;
};

}  // namespace

std::unique_ptr<Communicator> delayed(std::unique_ptr<Communicator> inner, std::function<void()> before_each) {
  return std::make_unique<Delayed>(std::move(inner), std::move(before_each));
}
std::unique_ptr<Communicator> delayed(std::unique_ptr<Communicator> inner, double seconds_per_call) {
  return delayed(std::move(inner),
                 [seconds_per_call] { std::this_thread::sleep_for(std::chrono::duration<double>(seconds_per_call)); });
}

}  // namespace trainyard::comm

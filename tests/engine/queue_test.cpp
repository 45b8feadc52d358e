// Agreements of ranks never queue behind gathers and reductions. The test holds a call back until computation after the
// agreement has begun, and every run must still end. It needs no clock: were the agreement behind the call, neither
// would ever go on.
#include "libtrain/model/assemble.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace trainyard {
namespace queue_test {

using testing::SmallRun;

// Counts the layers that a rank has entered in forward, and lets others wait for the next one.
class Forwards {
 public:
  void one_more() {
    std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  std::int64_t count() {
    std::lock_guard lock(mutex_);
    return count_;
  }
  void wait_beyond(std::int64_t seen) {
    std::unique_lock lock(mutex_);
    if (!late_ && !changed_.wait_for(lock, std::chrono::seconds(30), [&] { return count_ > seen; })) late_ = true;
    ++held_;
  }
  bool late() const { return late_; }
  int held() const { return held_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t count_ = 0;
  int held_ = 0;
  bool late_ = false;
};

thread_local Forwards* forwards_of_rank = nullptr;  // set on the compute thread

class CountedLayer : public model::Block {
 public:
  explicit CountedLayer(std::unique_ptr<model::Block> layer) : layer_(std::move(layer)) {}
  std::string name() const override { return layer_->name(); }
  void forward(model::Step& step, model::Flow& flow, model::Saved& saved) override {
    if (forwards_of_rank != nullptr) forwards_of_rank->one_more();
    layer_->forward(step, flow, saved);
  }
  void backward(model::Step& step, model::Flow& flow, model::Saved& saved) override {
    layer_->backward(step, flow, saved);
  }

 private:
  std::unique_ptr<model::Block> layer_;
};

// Passes every call on, but holds some back until the next forward of a layer: each `gathers`-th all_gather, and each
// `reductions`-th all_to_all except the last of a step. It holds nothing before the first forward nor after the last.
class HeldBack : public comm::Communicator {
 public:
  struct Which {
    int gathers = 0, reductions = 0, reductions_a_step = 0;
    std::int64_t forwards_in_all = 0;
  };
  HeldBack(std::unique_ptr<comm::Communicator> inner, Forwards& forwards, Which which)
      : Communicator(inner->group(), inner->rank(), inner->size()), inner_(std::move(inner)), forwards_(forwards),
        which_(which) {}

  void all_gather(tensor::Exec& exec, base::View in, base::View out) override {
    const auto seen = forwards_.count();
    if (which_.gathers > 0 && seen > 0 && ++gathers_ % which_.gathers == 0) hold(exec, seen);
    inner_->all_gather(exec, in, out);
  }
  void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    ++reductions_;
    if (which_.reductions > 0 && reductions_ % which_.reductions == 0 && reductions_ % which_.reductions_a_step != 0)
      hold(exec, forwards_.count());
    inner_->all_to_all(exec, send, send_counts, receive, receive_counts);
  }
  void all_reduce(tensor::Exec& exec, base::View inout, comm::Reduction op) override {
    inner_->all_reduce(exec, inout, op);
  }
  void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) override {
    inner_->reduce_scatter(exec, in, out);
  }
  void broadcast(tensor::Exec& exec, base::View inout, int root) override { inner_->broadcast(exec, inout, root); }
  void exchange(tensor::Exec& exec, std::span<const comm::Transfer> transfers) override {
    inner_->exchange(exec, transfers);
  }
  void barrier(tensor::Exec& exec) override { inner_->barrier(exec); }
  const comm::Ledger& ledger() const override { return std::as_const(*inner_).ledger(); }
  comm::Ledger& ledger() override { return inner_->ledger(); }

 private:
  void hold(tensor::Exec& exec, std::int64_t seen) {
    if (seen < which_.forwards_in_all) exec.run([this, seen] { forwards_.wait_beyond(seen); });
  }
  std::unique_ptr<comm::Communicator> inner_;
  Forwards& forwards_;
  Which which_;
  int gathers_ = 0, reductions_ = 0;
};

// The bits of a run in which both ranks' calls of the data group are held back.
std::string run_held(SmallRun& runs, engine::RunConfig config, int zero, const HeldBack::Which& which, int& held) {
  config.zero = zero, config.threads = 1;
  std::vector<Forwards> forwards(2);
  std::vector<engine::RunResult> results(2);
  engine::SignalWatcher signals;
  comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& threads) {
    const auto r = static_cast<std::size_t>(rank);
    forwards_of_rank = &forwards[r];
    auto world = engine::make_world(
        "threads", rank, 2,
        [&](const std::string& group, const std::vector<int>& ranks) -> std::unique_ptr<comm::Communicator> {
          auto plain = threads.split(rank, group, ranks);
          if (group != "data") return plain;
          return std::make_unique<HeldBack>(std::move(plain), forwards[r], which);
        });
    results[r] = engine::run(config, world, signals, {}, 2);
  });
  for (auto& f : forwards) {
    EXPECT_FALSE(f.late()) << "a call waited for a forward pass that itself waited for an agreement behind the call";
    held += f.held();
  }
  return runs.bits(config, results[0]);
}

class Queue : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model::register_block(
        "layer", [layer = model::block_factory("layer")](const plan::ModelConfig& m, const plan::PlacedBlock& place) {
          return std::make_unique<CountedLayer>(layer(m, place));
        });
  }
  engine::RunConfig config(const std::string& name) const {
    auto c = runs_.config(name);  // 3 layers: 6 flat groups, and 7 occurrences, because the token table is used twice
    c.steps = 4;
    c.global_batch = 4;
    return c;
  }
  SmallRun runs_;
};

// The last flat group that a step gathers is the head. It arrives only when the first layer has begun.
TEST_F(Queue, GathersAfterAnUpdateAreBehindNoAgreement) {
  const auto plain = config("plain");
  const auto expected = runs_.bits(plain, runs_.run(plain, {2, 1, 1}));
  for (int zero : {1, 2}) {
    int held = 0;
    EXPECT_EQ(run_held(runs_, config(fmt::format("held-{}", zero)), zero, {6, 0, 0, 4 * 2 * 3}, held), expected);
    EXPECT_EQ(held, 2 * 3) << "updates with a step behind them, on two ranks";
  }
}

// The last reduction of the first accumulation step ends only when the next step's forward has begun.
TEST_F(Queue, ReductionsOfATurnAreBehindNoAgreement) {
  const auto plain = config("plain");
  const auto expected = runs_.bits(plain, runs_.run(plain, {2, 2, 1}));
  int held = 0;
  EXPECT_EQ(run_held(runs_, config("held"), 2, {0, 7, 14, 4 * 2 * 3}, held), expected);
  EXPECT_EQ(held, 2 * 4) << "steps of two rounds, on two ranks";
}

}  // namespace queue_test
}  // namespace trainyard

// Tests overlap by counting: every collective waits for a permit, and compute gets exactly as far as the permits that
// it needs. What is fetched ahead or reduced later blocks nobody.
#include "libtrain/params/gradients.h"
#include "libtrain/params/weights.h"
#include "tests/params/ground.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

namespace trainyard::test {
namespace {

// A collective without a permit goes on after 20 s, since compute must then be waiting for it. That is recorded.
class Permits {
 public:
  void give(int n) {
    const std::lock_guard lock(mutex_);
    left_ += n;
    changed_.notify_all();
  }
  void take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return left_ > 0; })) missed_ = true;
    else --left_;
  }
  bool missed() {
    const std::lock_guard lock(mutex_);
    return missed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_ = 0;
  bool missed_ = false;
};

template <class Body> void with_permits(const ParallelLayout& layout, Body body) {
  comm::run_ranks(layout.ranks, [&](int rank, comm::ThreadsWorld& world) {
    Permits permits;
    Ground ground(tied_model(), layout, rank, world, [&permits] { permits.take(); });
    body(ground, permits);
    EXPECT_FALSE(permits.missed()) << layout.text() << ": computation waited for a collective that it did not need";
    permits.give(1000);
  });
}

// Sets all weights to zero.
void zero_shards(params::Weights& weights, const Ground& g) {
  for (int u = 0; u < g.flat_groups(); ++u) tensor::clear(*g.compute, weights.own_shard(u));
  weights.shards_changed();
}

// A lease needs its own gather and the earlier ones. As many further gathers as there are buffers are under way.
TEST(Overlap, ALeaseWaitsForItsOwnGather) {
  with_permits({2, 3, base::DType::f32, 2, 1, 2}, [](Ground& g, Permits& permits) {
    const auto weights = params::make_gathered_weights(g.context);
    zero_shards(*weights, g);
    const std::vector<plan::Occurrence> order{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}};
    weights->begin_pass(order);
    for (std::size_t k = 0; k < order.size(); ++k) {
      permits.give(1);
      weights->acquire(order[k]);
      EXPECT_GE(g.data.calls.size(), std::min(order.size(), k + 2)) << "nothing is on its way behind lease " << k;
      weights->give_back(order[k]);
    }
  });
}

// Stages 1 and 2: all gathers after an update are under way when the pass begins. Each lease waits for its own gather.
TEST(Overlap, UpdatedWeightsArriveBehindThePass) {
  for (const int zero : {1, 2})
    with_permits({2, zero, base::DType::f32, 2}, [](Ground& g, Permits& permits) {
      const auto weights = params::make_whole_weights(g.context);
      zero_shards(*weights, g);
      const std::vector<plan::Occurrence> order{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}};
      weights->begin_pass(order);
      EXPECT_EQ(g.data.calls.size(), order.size());
      for (const auto occurrence : order) {
        permits.give(1);
        weights->acquire(occurrence);
        weights->give_back(occurrence);
      }
    });
}

// A commit goes on at once. The next use of a buffer waits for the reduction that reads it. At stages 2 and 3 that is a
// rotating buffer. In the first accumulation step of stage 1 no two occurrences share a buffer, so nothing waits.
TEST(Overlap, ReductionsRunBehindTheBackwardPass) {
  for (int zero = 0; zero < 4; ++zero)
    for (const int slots : {1, 2})
      with_permits({2, zero, base::DType::f32, 2, 1, slots}, [zero, slots](Ground& g, Permits& permits) {
        params::GradientReduction reduction(g.context);
        reduction.begin_micro({0, params::GradientReduction::Position::Place::only});
        const std::vector<plan::Occurrence> order{
            {0, 1}, {7, 0}, {6, 0}, {5, 0}, {4, 0},
            {3, 0}, {2, 0}, {1, 0}, {0, 0}};  // the last two share the buffer of the table
        const int layers_begin = 2, layers_end = 7;
        int given = 0;
        for (int k = 0; k < static_cast<int>(order.size()); ++k) {
          const bool layer = k >= layers_begin && k < layers_end, table_again = k == 8;
          // Reductions that must be over before this occurrence's buffer is free: those up to the previous use of the
          // buffer.
          const int needed = zero == 1     ? 0
                             : layer       ? std::max(0, k - slots + 1) * (k - slots >= layers_begin)
                             : table_again ? 1
                                           : 0;
          if (needed > given) permits.give(needed - given), given = needed;
          const auto occurrence = order[static_cast<std::size_t>(k)];
          reduction.open(occurrence);
          tensor::clear(*g.compute, reduction.whole(occurrence));
          reduction.commit(occurrence);
          EXPECT_EQ(g.data.calls.size(), static_cast<std::size_t>(k) + 1) << g.layout.text();
        }
        EXPECT_LT(given, static_cast<int>(order.size()));
        permits.give(static_cast<int>(order.size()) - given);
        reduction.finish();
      });
}

}  // namespace
}  // namespace trainyard::test

// Tests streamed weights: a lease sees what the source has; what is read, when and in which order; errors of the
// source.
#include "libtrain/base/error.h"
#include "libtrain/params/weight_store.h"
#include "libtrain/plan/streamed_reads.h"
#include "tests/params/ground.h"
#include "tests/params/plain_model.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

namespace trainyard::test {
namespace streamed_weights_test {

// Gives the shards of a plain model, each a while after it was asked for, and notes which were read.
class PlainSource : public params::WeightSource {
 public:
  PlainSource(const Ground& g, const PlainModel& plain, std::chrono::microseconds late = {})
      : rank_(g.rank()), plain_(plain), late_(late) {}
  void read(int flat_group, base::View shard) override {
    std::this_thread::sleep_for(late_);
    if (flat_group == broken) throw base::InputError("flat group 4 is damaged");
    for (std::int64_t i = 0; i < shard.count(); ++i) {
      const float w = plain_.flat_group(flat_group).weight[static_cast<std::size_t>(rank_ * shard.count() + i)];
      const auto bits = bf16_bits(w);
      if (shard.dtype == base::DType::bf16) std::memcpy(static_cast<char*>(shard.data) + 2 * i, &bits, 2);
      else shard.ptr<float>()[i] = w;
    }
    const std::lock_guard lock(mutex_);
    done_.push_back(flat_group);
    changed_.notify_all();
  }
  std::vector<int> done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  // Whether so many reads are done in the end.
  bool await(std::size_t reads) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return done_.size() >= reads; });
  }
  int broken = -1;

 private:
  int rank_;
  const PlainModel& plain_;
  std::chrono::microseconds late_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> done_;
};

std::vector<plan::Occurrence> order_of(std::initializer_list<int> flat_groups) {
  std::vector<plan::Occurrence> out;
  for (int u : flat_groups) out.push_back({u, 0});
  return out;
}

void expect_lease(params::Weights& weights, const Ground& g, const PlainModel& plain, plan::Occurrence occurrence) {
  weights.acquire(occurrence);
  EXPECT_EQ(difference(weights.whole(occurrence.flat_group), plain.flat_group(occurrence.flat_group).weight), "")
      << g.layout.text() << " flat group " << occurrence.flat_group;
  weights.give_back(occurrence);
}

// Slots are those of ZeRO 3, and there are no shards beside them. A second announcement of passes, or one in the middle
// of a pass, changes nothing.
TEST(StreamedWeights, ALeaseSeesWhatTheSourceHas) {
  for (const auto& model : {tied_model(), untied_model()})
    for (int ranks = 1; ranks <= 3; ++ranks)
      for (const auto working : {base::DType::f32, base::DType::bf16})
        for (const int slots : {1, 2, 9})
          on_ranks(
              model, {ranks, 3, working, ranks, 1, slots},
              [](Ground& g) {
                PlainModel plain(g.set.flat_groups, g.set.occurrences, g.layout.ranks);
                plain.scatter(3);
                PlainSource source(g, plain, std::chrono::microseconds(g.rank() == 1 ? 300 : 50));
                const auto weights = params::make_streamed_weights(g.context, source);
                EXPECT_TRUE(g.full({&g.gathered})) << g.layout.text();
                EXPECT_EQ(g.parameters.used_bytes(), 0);
                for (int pass = 0; pass < 3; ++pass) {
                  if (pass == 0) weights->begin_passes({{g.set.occurrences}, {0, 0}});
                  if (pass == 2) weights->begin_pass(g.set.occurrences);
                  for (const auto occurrence : g.set.occurrences) expect_lease(*weights, g, plain, occurrence);
                }
                weights->begin_passes({{g.set.occurrences}, {0, 0}});
                for (std::size_t i = 0; i < g.set.occurrences.size() / 2; ++i)
                  expect_lease(*weights, g, plain, g.set.occurrences[i]);
                auto backwards = g.set.occurrences;
                std::reverse(backwards.begin(), backwards.end());
                weights->begin_pass(backwards);
                for (const auto occurrence : backwards) expect_lease(*weights, g, plain, occurrence);
              },
              std::chrono::microseconds(ranks == 3 ? 100 : 0));
}

// Flat groups: the token table, the positions, five layers, the final norm. Two slots of layers hold the last two
// layers after a pass, so all five are read again; what is outside the layers is read once.
TEST(StreamedWeights, WhatASlotHoldsIsNotReadAgain) {
  const std::vector<std::pair<int, std::vector<int>>> later = {
      {1, {2, 3, 4, 5, 6}}, {2, {2, 3, 4, 5, 6}}, {4, {2, 6}}, {5, {}}, {9, {}}};
  for (const auto& [slots, again] : later)
    on_ranks(tied_model(), {2, 3, base::DType::bf16, 2, 1, slots}, [&, again = again, slots = slots](Ground& g) {
      PlainModel plain(g.set.flat_groups, g.set.occurrences, 2);
      plain.scatter(5);
      PlainSource source(g, plain);
      const auto weights = params::make_streamed_weights(g.context, source);
      plan::StreamedReads predicted(g.model, g.layout.topology(), g.rank(), slots, 2);
      std::vector<int> want{0, 1, 2, 3, 4, 5, 6, 7};
      std::int64_t bytes = 0;
      for (int pass = 0; pass < 3; ++pass) {
        const plan::LeaseOrder leases{{g.set.occurrences}, {0}};
        weights->begin_passes(leases);
        predicted.add(leases);
        for (const auto occurrence : g.set.occurrences) expect_lease(*weights, g, plain, occurrence);
        if (pass > 0) want.insert(want.end(), again.begin(), again.end());
        EXPECT_EQ(source.done(), want) << slots << " slots, pass " << pass;
      }
      for (const int u : want) {
        const auto& live = plain.flat_group(u).live;
        const auto shard = live.size() / 2, first = static_cast<std::size_t>(g.rank()) * shard;
        for (std::size_t i = first; i < first + shard; ++i) bytes += 2 * live[i];
      }
      EXPECT_EQ(predicted.bytes(), bytes) << slots << " slots";
    });
}

// The next layer is read while this one is leased, also from one pass to the next; never into a slot that is leased.
TEST(StreamedWeights, TheNextLayersAreReadWhileThisOneComputes) {
  on_ranks(tied_model(), {1, 3}, [](Ground& g) {
    PlainModel plain(g.set.flat_groups, g.set.occurrences, 1);
    plain.scatter(5);
    PlainSource source(g, plain);
    const auto weights = params::make_streamed_weights(g.context, source);
    const auto order = order_of({0, 1, 2, 3, 4, 5, 6, 7});
    weights->begin_passes({{order}, {0, 0}});
    EXPECT_TRUE(source.done().empty());
    const std::vector<std::size_t> ahead = {4, 4, 4, 5, 6, 8, 8, 10};  // reads that are added by the k-th lease
    for (std::size_t k = 0; k < order.size(); ++k) {
      weights->acquire(order[k]);
      EXPECT_TRUE(source.await(ahead[k])) << "lease " << k;
      EXPECT_EQ(source.done().size(), ahead[k]) << "lease " << k;
      weights->give_back(order[k]);
    }
    for (const auto occurrence : order) expect_lease(*weights, g, plain, occurrence);
    EXPECT_EQ(source.done(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6}));
    EXPECT_GE(source.wait_seconds, 0);
  });
}

// What was read before the error can still be leased.
TEST(StreamedWeights, AnErrorOfTheSourceIsThrownByTheLeaseThatNeedsIt) {
  on_ranks(tied_model(), {1, 3}, [](Ground& g) {
    PlainModel plain(g.set.flat_groups, g.set.occurrences, 1);
    plain.scatter(5);
    PlainSource source(g, plain);
    source.broken = 4;
    const auto weights = params::make_streamed_weights(g.context, source);
    const auto order = order_of({0, 1, 2, 3, 4, 5, 6, 7});
    weights->begin_pass(order);
    for (int u = 0; u < 4; ++u) expect_lease(*weights, g, plain, {u, 0});
    EXPECT_THROW(weights->acquire({4, 0}), base::InputError);
    weights->begin_pass(order_of({4}));
    EXPECT_THROW(weights->acquire({4, 0}), base::InputError);
  });
}

TEST(StreamedWeights, LeasesOutOfOrderAndChangesAreRefused) {
  on_ranks(tied_model(), {1, 3}, [](Ground& g) {
    PlainModel plain(g.set.flat_groups, g.set.occurrences, 1);
    PlainSource source(g, plain);
    params::WeightStore store(g.context, &source);
    auto& weights = store.weights();
    const auto order = order_of({0, 2, 4});
    store.begin_evaluation(order);
    EXPECT_THROW(weights.acquire({2, 0}), std::logic_error);
    const auto table = store.lease({0, 0});
    const auto layer = store.lease({2, 0});
    EXPECT_THROW(store.lease({4, 0}), std::logic_error);  // its slot is leased
    EXPECT_THROW(weights.own_shard(0), std::logic_error);
    EXPECT_THROW(weights.shards_changed(), std::logic_error);
    EXPECT_THROW(store.grads({0, 0}), std::logic_error);
  });
}

}  // namespace streamed_weights_test
}  // namespace trainyard::test

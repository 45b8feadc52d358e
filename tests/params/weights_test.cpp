// Tests Weights: a lease sees the shards of all ranks as the last update left them; and what is gathered, when and in
// which order.
#include "libtrain/params/weight_store.h"

#include "libtrain/plan/cost/zero_group_calls.h"
#include "tests/params/ground.h"
#include "tests/params/plain_model.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace weights_test {

using params::Weights;

std::unique_ptr<Weights> make_weights(Ground& g) {
  return g.layout.zero == 3 ? params::make_gathered_weights(g.context) : params::make_whole_weights(g.context);
}

// Does what an optimizer does: writes new shards, then reports that they changed.
void write_shards(Weights& weights, const Ground& g, const PlainModel& plain) {
  for (int u = 0; u < g.flat_groups(); ++u) {
    const auto shard = weights.own_shard(u);
    for (std::int64_t i = 0; i < shard.count(); ++i) {
      const float w = plain.flat_group(u).weight[static_cast<std::size_t>(g.rank() * shard.count() + i)];
      const auto bits = bf16_bits(w);
      if (shard.dtype == base::DType::bf16) std::memcpy(static_cast<char*>(shard.data) + 2 * i, &bits, 2);
      else shard.ptr<float>()[i] = w;
    }
  }
  weights.shards_changed();
}

std::vector<plan::Occurrence> occurrences_of(std::initializer_list<int> flat_groups) {
  std::vector<plan::Occurrence> out;
  for (int u : flat_groups) out.push_back({u, 0});
  return out;
}

std::vector<std::int64_t> gathered(const Ground& g) {
  std::vector<std::int64_t> out;
  for (const auto& call : g.data.calls) {
    EXPECT_EQ(call.operation, "all_gather");
    out.push_back(call.elements);
  }
  return out;
}

std::vector<std::int64_t> padded(const PlainModel& plain, std::initializer_list<int> flat_groups) {
  std::vector<std::int64_t> out;
  for (int u : flat_groups) out.push_back(plain.flat_group(u).padded);
  return out;
}

// The first comparison finds a lease that did not wait. The second finds a fetch that overwrote the buffer.
void expect_lease(Weights& weights, Ground& g, const PlainModel& plain, plan::Occurrence occurrence) {
  weights.acquire(occurrence);
  EXPECT_EQ(difference(weights.whole(occurrence.flat_group), plain.flat_group(occurrence.flat_group).weight), "")
      << g.layout.text() << " flat group " << occurrence.flat_group;
  g.context.communication.synchronize();
  EXPECT_EQ(difference(weights.whole(occurrence.flat_group), plain.flat_group(occurrence.flat_group).weight), "")
      << g.layout.text() << " flat group " << occurrence.flat_group << " in the lease";
  weights.give_back(occurrence);
}

TEST(Weights, ALeaseSeesTheShardsOfTheLastUpdate) {
  for (int zero = 0; zero < 4; ++zero)
    for (int ranks = 1; ranks <= 4; ++ranks)
      for (const auto working : {base::DType::f32, base::DType::bf16})
        for (const int slots : {1, 2, 9}) {
          if (zero == 0 && ranks > 1) continue;  // stage 0 writes whole weights, not shards
          on_ranks(
              tied_model(), {ranks, zero, working, ranks, 1, slots},
              [](Ground& g) {
                PlainModel plain(g.set.flat_groups, g.set.occurrences, g.layout.ranks);
                const auto weights = make_weights(g);
                EXPECT_TRUE(g.full({&g.parameters, &g.gathered})) << g.layout.text();
                for (std::int64_t update = 0; update < 3; ++update) {
                  plain.scatter(update);
                  write_shards(*weights, g, plain);
                  for (int pass = 0; pass < 2; ++pass) {
                    weights->begin_pass(g.set.occurrences);
                    for (const auto occurrence : g.set.occurrences) expect_lease(*weights, g, plain, occurrence);
                  }
                }
              },
              std::chrono::microseconds(ranks == 3 ? 200 : 0));
        }
}

// Stages 1 and 2 gather nothing until a pass begins. Then they gather every flat group once, in the order of the pass's
// leases, followed by groups without a lease. Later passes gather nothing.
TEST(Weights, WholeOnesAreGatheredOnceInTheOrderOfTheLeases) {
  on_ranks(tied_model(), {2, 1}, [](Ground& g) {
    PlainModel plain(g.set.flat_groups, g.set.occurrences, 2);
    ASSERT_EQ(g.flat_groups(), 8);  // the token table, the positions, five layers, the final norm
    const auto weights = make_weights(g);
    weights->begin_pass(g.set.occurrences);
    EXPECT_TRUE(g.data.calls.empty());
    plain.scatter(1);
    write_shards(*weights, g, plain);
    EXPECT_TRUE(g.data.calls.empty());
    const std::vector<plan::Occurrence> order{{7, 0}, {0, 1}, {3, 0}, {0, 0}};
    weights->begin_pass(order);
    EXPECT_EQ(gathered(g), padded(plain, {7, 0, 3, 1, 2, 4, 5, 6}));
    for (const auto occurrence : order) expect_lease(*weights, g, plain, occurrence);
    weights->begin_pass(g.set.occurrences);
    weights->complete();
    EXPECT_EQ(g.data.calls.size(), 8u);
    for (int u = 0; u < g.flat_groups(); ++u)
      EXPECT_EQ(difference(weights->whole(u), plain.flat_group(u).weight), "") << u;
  });
}

// complete() leaves nothing to gather and nothing to wait for.
TEST(Weights, CompleteOnesAreWholeWithoutAPass) {
  on_ranks(tied_model(), {3, 2, base::DType::bf16}, [](Ground& g) {
    PlainModel plain(g.set.flat_groups, g.set.occurrences, 3);
    const auto weights = make_weights(g);
    plain.scatter(4);
    write_shards(*weights, g, plain);
    weights->complete();
    for (int u = 0; u < g.flat_groups(); ++u)
      EXPECT_EQ(difference(weights->whole(u), plain.flat_group(u).weight), "") << u;
    const auto calls = g.data.calls.size();
    weights->begin_pass(g.set.occurrences);
    EXPECT_EQ(g.data.calls.size(), calls);
  });
}

// Zero groups: the same leases, also of several updates without a pass between them.
TEST(Weights, ALeaseInAZeroGroupSeesTheShardsOfAllRanks) {
  for (const auto& [ranks, group] : std::vector<std::pair<int, int>>{{4, 2}, {6, 2}, {6, 3}, {8, 4}, {9, 3}})
    for (const auto working : {base::DType::f32, base::DType::bf16})
      for (const int slots : {1, 9}) {
        ParallelLayout layout{ranks, 3, working, ranks, 1, slots};
        layout.zero_group = group;
        on_ranks(
            tied_model(), layout,
            [](Ground& g) {
              PlainModel plain(g.set.flat_groups, g.set.occurrences, g.layout.ranks);
              const auto weights = make_weights(g);
              EXPECT_TRUE(g.full({&g.parameters, &g.gathered})) << g.layout.text();
              for (std::int64_t update = 0; update < 4; ++update) {
                plain.scatter(update);
                write_shards(*weights, g, plain);
                if (update == 1) continue;
                if (update == 2) weights->complete();
                for (int pass = 0; pass < 2; ++pass) {
                  weights->begin_pass(g.set.occurrences);
                  for (const auto occurrence : g.set.occurrences) expect_lease(*weights, g, plain, occurrence);
                }
              }
            },
            std::chrono::microseconds(ranks == 6 ? 200 : 0));
      }
}

// Between the groups each flat group is exchanged once after an update: right before its first gather, or by
// complete(). Gathers are calls of the zero group alone.
TEST(Weights, ZeroGroupsExchangeOnceAndGatherAmongThemselves) {
  ParallelLayout layout{4, 3};
  layout.zero_group = 2;
  on_ranks(tied_model(), layout, [](Ground& g) {
    PlainModel plain(g.set.flat_groups, g.set.occurrences, 4);
    auto& group = static_cast<Noting&>(g.world.group({plan::Axis::zero_group}));
    const auto weights = make_weights(g);
    const std::vector<plan::Occurrence> order = occurrences_of({0, 1, 2, 3, 4, 5, 6, 7});
    const auto calls = [&](std::size_t across, std::size_t inside, const char* when) {
      EXPECT_EQ(g.data.calls.size(), across) << when;
      EXPECT_EQ(group.calls.size(), inside) << when;
    };
    weights->begin_pass(order);
    weights->shards_changed();
    weights->begin_pass(order);
    calls(0, 0, "before a lease");
    weights->acquire({0, 0});
    calls(3, 3, "the first group and two layers ahead");
    weights->give_back({0, 0});
    weights->complete();
    calls(8, 3, "complete");
    weights->begin_pass(order);
    for (const auto occurrence : order) weights->acquire(occurrence), weights->give_back(occurrence);
    calls(8, 11, "a pass without changes");
    weights->shards_changed();
    weights->complete();
    weights->complete();
    calls(16, 11, "complete after an update");
    for (const auto& call : g.data.calls) EXPECT_EQ(call.operation, "exchange");
    for (const auto& call : group.calls) EXPECT_EQ(call.operation, "all_gather");
    // A rank sends its shard to one rank of each group, itself excepted: ranks 0 and 3 have their own shard.
    g.context.communication.synchronize();
    const auto shards = g.set.table.shard_total() * 4, sent = g.rank() == 0 || g.rank() == 3 ? shards : 2 * shards;
    EXPECT_EQ(g.data.ledger().totals().at("all_to_all").sent_bytes, 2 * sent) << g.rank();
  });
}

// With tensor parallelism exchanges and gathers are divided into segments.
TEST(Weights, ZeroGroupsExchangeInSegments) {
  ParallelLayout layout{6, 3};
  layout.tensor = 2, layout.zero_group = 3;
  on_ranks(tied_model_of_heads(), layout, [](Ground& g) {
    g.context.segment_bytes = 512;
    const auto weights = make_weights(g);
    const auto value = [](int u, std::int64_t i) { return static_cast<float>(10000 * u + i); };
    for (int u = 0; u < g.flat_groups(); ++u) {
      const auto shard = weights->own_shard(u);
      for (std::int64_t i = 0; i < shard.count(); ++i) shard.ptr<float>()[i] = value(u, g.rank() * shard.count() + i);
    }
    weights->shards_changed();
    weights->begin_pass(g.set.occurrences);
    for (const auto occurrence : g.set.occurrences) {
      const int u = occurrence.flat_group;
      weights->acquire(occurrence);
      const auto whole = weights->whole(u);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < whole.count(); ++i) wrong += whole.ptr<float>()[i] != value(u, i);
      EXPECT_EQ(wrong, 0) << u << " of " << whole.count();
      weights->give_back(occurrence);
    }
    std::int64_t calls = 0, bytes = 0;
    for (const auto& c : plan::zero_group_calls(g.set.table, g.layout.shape(), g.rank(), 512))
      calls += c.calls, bytes += *c.sent;
    g.context.communication.synchronize();
    const auto sent = g.data.ledger().totals().at("all_to_all");
    EXPECT_EQ(std::ssize(g.data.calls), calls);
    EXPECT_GT(calls, g.flat_groups());
    EXPECT_EQ(static_cast<std::int64_t>(sent.sent_bytes), bytes) << g.rank();
  });
}

// One rank has nothing to gather at stages 0 to 2.
TEST(Weights, OneRankGathersNoWholeOnes) {
  on_ranks(tied_model(), {1, 1}, [](Ground& g) {
    PlainModel plain(g.set.flat_groups, g.set.occurrences, 1);
    const auto weights = make_weights(g);
    plain.scatter(1);
    write_shards(*weights, g, plain);
    weights->begin_pass(g.set.occurrences);
    weights->complete();
    EXPECT_TRUE(g.data.calls.empty());
  });
}

// Stage 3. Flat groups are leased in order: the table, the positions, five layers, the final norm. `expected` has the
// number of fetches after the first, second, ... lease. Layers are fetched ahead into all buffers, but never into a
// buffer whose lease is still to come or not over.
TEST(Weights, SlotsBoundHowFarIsFetchedAhead) {
  const std::vector<std::pair<int, std::vector<std::size_t>>> expected = {{1, {2, 3, 3, 4, 5, 6, 8, 8}},
                                                                          {2, {3, 4, 4, 5, 6, 8, 8, 8}},
                                                                          {5, {6, 7, 8, 8, 8, 8, 8, 8}},
                                                                          {9, {8, 8, 8, 8, 8, 8, 8, 8}}};
  for (const auto& [slots, counts] : expected)
    on_ranks(tied_model(), {2, 3, base::DType::f32, 2, 1, slots}, [&counts = counts](Ground& g) {
      PlainModel plain(g.set.flat_groups, g.set.occurrences, 2);
      const auto weights = make_weights(g);
      plain.scatter(9);
      write_shards(*weights, g, plain);
      const auto order = occurrences_of({0, 1, 2, 3, 4, 5, 6, 7});
      for (int pass = 0; pass < 2; ++pass) {
        g.data.calls.clear();
        weights->begin_pass(order);
        EXPECT_TRUE(g.data.calls.empty()) << "fetches are issued at lease points";
        for (std::size_t k = 0; k < order.size(); ++k) {
          expect_lease(*weights, g, plain, order[k]);
          EXPECT_EQ(g.data.calls.size(), counts[k]) << g.layout.text() << " lease " << k;
        }
        EXPECT_EQ(gathered(g), padded(plain, {0, 1, 2, 3, 4, 5, 6, 7}));
      }
    });
}

// The second occurrence of a tied table has a lease and a gather of its own. Layers use their buffers again in reverse
// order.
TEST(Weights, EveryLeaseIsAGather) {
  for (const int slots : {1, 2, 9})
    on_ranks(tied_model(), {2, 3, base::DType::bf16, 2, 1, slots}, [](Ground& g) {
      PlainModel plain(g.set.flat_groups, g.set.occurrences, 2);
      const auto weights = make_weights(g);
      plain.scatter(2);
      write_shards(*weights, g, plain);
      const std::vector<plan::Occurrence> order{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0},
                                                {7, 0}, {0, 1}, {6, 0}, {5, 0}, {4, 0}, {3, 0}, {2, 0}};
      weights->begin_pass(order);
      for (const auto occurrence : order) expect_lease(*weights, g, plain, occurrence);
      std::vector<std::int64_t> want;
      for (const auto occurrence : order) want.push_back(plain.flat_group(occurrence.flat_group).padded);
      EXPECT_EQ(gathered(g), want);
    });
}

// An order that keeps flat groups, as breadth first: three micro-batches pass a block before the next block. Each slot
// is filled again only for another flat group, and the next block's weights come while this one computes.
TEST(Weights, KeptOnesAreGatheredWhereTheSlotHasAnotherOne) {
  // The layers that backward gathers again, and the gathers that were issued behind the first lease of each pass of the
  // first micro-batch through the embedding, the five layers and the head.
  struct Expected {
    int slots;
    std::vector<int> again;
    std::vector<std::size_t> issued;
  };
  const std::vector<Expected> expected = {
      {1, {5, 4, 3, 2}, {2, 3, 4, 5, 6, 8, 8}}, {2, {4, 3, 2}, {3, 4, 5, 6, 8, 8, 8}}, {9, {}, {8, 8, 8, 8, 8, 8, 8}}};
  for (const auto& want : expected)
    on_ranks(tied_model(), {2, 3, base::DType::f32, 2, 1, want.slots}, [&want](Ground& g) {
      PlainModel plain(g.set.flat_groups, g.set.occurrences, 2);
      const auto weights = make_weights(g);
      plan::LeaseOrder order;
      order.keeps = true;
      order.lists = {{{0, 0}, {1, 0}}, {{2, 0}}, {{3, 0}}, {{4, 0}}, {{5, 0}}, {{6, 0}}, {{7, 0}, {0, 1}}};
      for (const std::uint32_t pass : {0, 1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1})
        order.passes.insert(order.passes.end(), 3, pass);
      for (int step = 0; step < 2; ++step) {
        plain.scatter(step);
        write_shards(*weights, g, plain);
        g.data.calls.clear();
        weights->begin_passes(order);
        std::vector<std::size_t> issued;
        for (std::size_t i = 0; i < order.passes.size(); ++i) {
          const auto& leases = order.lists[order.passes[i]];
          for (const auto occurrence : leases) {
            expect_lease(*weights, g, plain, occurrence);
            if (i % 3 == 0 && i < 21 && occurrence == leases.front()) issued.push_back(g.data.calls.size());
          }
        }
        EXPECT_EQ(issued, want.issued) << want.slots;
        auto all = padded(plain, {0, 1, 2, 3, 4, 5, 6, 7});
        for (const int u : want.again) all.push_back(plain.flat_group(u).padded);
        EXPECT_EQ(gathered(g), all) << want.slots;
      }
    });
}

TEST(Weights, ALeaseOutOfTheStatedOrderIsRefused) {
  on_ranks(tied_model(), {1, 3}, [](Ground& g) {
    const PlainModel plain(g.set.flat_groups, g.set.occurrences, 1);
    const auto weights = make_weights(g);
    write_shards(*weights, g, plain);
    const auto order = occurrences_of({0, 1});
    weights->begin_pass(order);
    EXPECT_THROW(weights->acquire({1, 0}), std::logic_error);
    weights->acquire({0, 0});
    weights->acquire({1, 0});
    EXPECT_THROW(weights->acquire({2, 0}), std::logic_error);
    weights->begin_pass(order);
    EXPECT_THROW(weights->acquire({0, 0}), std::logic_error);  // it is still leased
    weights->give_back({0, 0}), weights->give_back({1, 0});
    weights->begin_pass(order);
    EXPECT_NO_THROW(weights->acquire({0, 0}));
    weights->shards_changed();  // the announced pass is void
    EXPECT_THROW(weights->acquire({1, 0}), std::logic_error);
  });
}

// A pass over weights alone: stored shapes at every stage, and no gradients.
TEST(WeightStore, LeasesParametersInTheirStoredShape) {
  for (const int zero : {0, 3})
    on_ranks(untied_model(), {2, zero, base::DType::f32, 2}, [zero](Ground& g) {
      PlainModel plain(g.set.flat_groups, g.set.occurrences, 2);
      params::WeightStore store(g.context);
      plain.scatter(3);
      write_shards(store.weights(), g, plain);
      store.begin_evaluation(g.set.occurrences);
      for (const auto occurrence : g.set.occurrences) {
        const auto lease = store.lease(occurrence);
        const auto& parameters = g.set.flat_groups[static_cast<std::size_t>(occurrence.flat_group)].parameters;
        for (std::size_t p = 0; p < parameters.size(); ++p) {
          const auto w = lease.weight(static_cast<int>(p));
          const auto& stored = parameters[p].stored;
          EXPECT_EQ(w.shape[0], stored[0]) << parameters[p].name;
          EXPECT_EQ(w.cols(), stored.back()) << parameters[p].name;
          EXPECT_EQ(difference(w, plain.flat_group(occurrence.flat_group).weight,
                               plain.flat_group(occurrence.flat_group).offsets[p]),
                    "")
              << parameters[p].name << " at ZeRO " << zero;
        }
      }
      EXPECT_THROW(store.grads({0, 0}), std::logic_error);
    });
}

}  // namespace weights_test
}  // namespace trainyard::test

// Tests GradientReduction: a rank's own shards hold the ordered reduction of decision 1, bit for bit. The ZeRO
// stage, ranks, group size, number of buffers and an uneven last accumulation step must not matter.
#include "libtrain/params/gradients.h"
#include "libtrain/plan/cost/reduction_node_calls.h"
#include "tests/params/ground.h"
#include "tests/params/plain_model.h"

#include <gtest/gtest.h>

#include <array>

namespace trainyard::test {
namespace {

using params::GradientReduction;
using Place = GradientReduction::Position::Place;

Place place(std::int64_t in_group, std::int64_t local_accumulation) {
  if (local_accumulation == 1) return Place::only;
  return in_group == 0 ? Place::first : in_group + 1 == local_accumulation ? Place::last : Place::middle;
}

// Reduces a step as the engine does: this rank's groups by accumulation step, occurrences from the last to the first.
// Without a group the rank idles.
void reduce_step(GradientReduction& reduction, const Ground& g, const PlainModel& plain, Values kind,
                 std::int64_t step) {
  const auto groups = g.layout.micros / g.layout.local_accumulation;
  for (std::int64_t round = 0; round * g.layout.ranks < groups; ++round) {
    const auto group = round * g.layout.ranks + g.rank();
    if (group >= groups) {
      for (auto occurrence = plain.occurrences.rbegin(); occurrence != plain.occurrences.rend(); ++occurrence)
        reduction.idle(*occurrence, round);
      continue;
    }
    for (std::int64_t k = 0; k < g.layout.local_accumulation; ++k) {
      reduction.begin_micro({round, place(k, g.layout.local_accumulation)});
      for (auto occurrence = plain.occurrences.rbegin(); occurrence != plain.occurrences.rend(); ++occurrence) {
        reduction.open(*occurrence);
        ASSERT_EQ(reduction.whole(*occurrence).count(), plain.flat_group(occurrence->flat_group).padded);
        fill(reduction.whole(*occurrence),
             plain.gradient(kind, step, group * g.layout.local_accumulation + k, *occurrence));
        reduction.commit(*occurrence);
      }
    }
  }
  reduction.finish();
}

void expect_shards(GradientReduction& reduction, const Ground& g, const std::vector<Floats>& want, std::int64_t step) {
  for (int u = 0; u < g.flat_groups(); ++u) {
    const auto shard = reduction.shard(u);
    ASSERT_EQ(shard.count() * g.layout.ranks, static_cast<std::int64_t>(want[static_cast<std::size_t>(u)].size()));
    const auto wrong = difference(shard, want[static_cast<std::size_t>(u)], g.rank() * shard.count());
    EXPECT_EQ(wrong, "") << g.layout.text() << " rank " << g.rank() << " step " << step << " flat group " << u;
  }
}

// Three steps, so that what one step leaves behind shows in the next.
void expect_plain_reductions(const plan::ModelConfig& model, const ParallelLayout& layout, Values kind,
                             std::chrono::microseconds late = {}) {
  on_ranks(
      model, layout,
      [&](Ground& g) {
        const PlainModel plain(g.set.flat_groups, g.set.occurrences, layout.ranks);
        GradientReduction reduction(g.context);
        EXPECT_TRUE(g.full({&g.gradients, &g.micro_batch_gradients, &g.staging}))
            << layout.text() << ": the plan gave other buffers";
        for (std::int64_t step = 0; step < 3; ++step) {
          const auto want = plain.reduced(kind, step, layout.micros, layout.local_accumulation);
          reduce_step(reduction, g, plain, kind, step);
          expect_shards(reduction, g, want, step);
          if (layout.zero != 0) continue;
          reduction.gather_sums();
          for (int u = 0; u < g.flat_groups(); ++u)
            EXPECT_EQ(difference(reduction.gathered(u), want[static_cast<std::size_t>(u)]), "")
                << layout.text() << " flat group " << u;
        }
      },
      late);
}

// Full accumulation steps, an uneven last one, fewer groups than ranks, several accumulation steps.
std::vector<std::int64_t> group_counts(int ranks) {
  std::vector<std::int64_t> out{1};
  for (std::int64_t n : {ranks - 1, ranks, ranks + 1, 2 * ranks, 2 * ranks + 1})
    if (n > out.back()) out.push_back(n);
  return out;
}

class OrderedReduction : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(zero, OrderedReduction, testing::Range(0, 4));

TEST_P(OrderedReduction, TheOrderIsThatOfTheMicroBatches) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const std::int64_t local_accumulation : {1, 2, 3})
      for (const auto groups : group_counts(ranks))
        for (const int slots : {1, 2, 9})
          expect_plain_reductions(
              tied_model(),
              {ranks, GetParam(), base::DType::f32, groups * local_accumulation, local_accumulation, slots},
              Values::scattered);
}

// The library may add in any order. So bits are compared only for sums that are exact in every order.
TEST_P(OrderedReduction, TheFastReductionAddsTheSame) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const std::int64_t local_accumulation : {1, 2})
      for (const auto groups : group_counts(ranks))
        expect_plain_reductions(
            tied_model(),
            {ranks, GetParam(), base::DType::f32, groups * local_accumulation, local_accumulation, 1, Reduction::fast},
            Values::integers);
}

TEST_P(OrderedReduction, WithoutTiesAndInBf16ToTheSameBits) {
  for (int ranks = 1; ranks <= 3; ++ranks)
    for (const auto working : {base::DType::f32, base::DType::bf16})
      expect_plain_reductions(untied_model(), {ranks, GetParam(), working, 2 * ranks + 1, 1, 2}, Values::scattered);
}

// Nodes that add one after the other: the same sums. Pieces are smaller than most shards, and no divisor of them.
TEST_P(OrderedReduction, NodesContinueTheSumsOfOneAnother) {
  for (const auto& [ranks, node, groups, local_accumulation] :
       std::vector<std::array<int, 4>>{{4, 2, 3, 1}, {4, 2, 9, 2}, {6, 2, 8, 1}}) {
    ParallelLayout layout{
        ranks, GetParam(), base::DType::f32, std::int64_t{groups} * local_accumulation, local_accumulation, 2};
    layout.reduction_node = node, layout.reduction_piece = 50;
    expect_plain_reductions(tied_model(), layout, Values::scattered);
  }
}

// Every rank makes the calls and sends the bytes that the plan has for it, also in segments of tensor-parallel ranks.
TEST(OrderedReductionOverNodes, SendsWhatIsPlanned) {
  struct Case {
    int ranks, node, tensor, micros;
  };
  for (const auto& c : {Case{4, 2, 1, 3}, Case{6, 2, 1, 15}, Case{4, 2, 2, 6}}) {
    const int node = c.node, micros = c.micros;
    ParallelLayout layout{c.ranks, 2, base::DType::f32, micros};
    layout.reduction_node = node, layout.reduction_piece = 50, layout.tensor = c.tensor;
    on_ranks(tied_model_of_heads(), layout, [&](Ground& g) {
      g.context.segment_bytes = 512;
      GradientReduction reduction(g.context);
      for (std::int64_t round = 0; round * layout.ranks < micros; ++round)
        for (auto o = g.set.occurrences.rbegin(); o != g.set.occurrences.rend(); ++o) {
          if (round * layout.ranks + g.rank() >= micros) {
            reduction.idle(*o, round);
            continue;
          }
          reduction.begin_micro({round, Place::only});
          reduction.open(*o);
          reduction.commit(*o);
        }
      reduction.finish();
      const auto planned = plan::added_up(plan::reduction_node_calls(g.set.table, layout.shape(), g.rank(), 512));
      EXPECT_EQ(planned.size(), g.rank() / node * node < micros ? 2u : 1u);
      for (const auto& t : planned) {
        const auto totals = g.world.group(t.group.axes()).ledger().totals();
        const auto sent = totals.find(t.operation);
        ASSERT_NE(sent, totals.end()) << t.operation;
        EXPECT_EQ(static_cast<std::int64_t>(sent->second.calls), t.calls) << layout.text() << " rank " << g.rank();
        EXPECT_EQ(static_cast<std::int64_t>(sent->second.sent_bytes), t.bytes) << layout.text() << " " << g.rank();
      }
      EXPECT_TRUE(g.data.calls.empty()) << "all at once is not asked for";
    });
  }
}

// A reduction that begins late still reads what was committed: open() waits for it before it returns the buffer.
TEST_P(OrderedReduction, NoBufferIsGivenAwayUnderAReduction) {
  for (const auto reduction : {Reduction::ordered, Reduction::fast})
    for (const std::int64_t local_accumulation : {1, 2})
      for (const int slots : {1, 2}) {
        const auto kind = reduction == Reduction::fast ? Values::integers : Values::scattered;
        expect_plain_reductions(
            tied_model(),
            {2, GetParam(), base::DType::f32, 3 * local_accumulation, local_accumulation, slots, reduction}, kind,
            std::chrono::microseconds(500));
      }
}

// Checks the plain model: its bits show the order of additions, and it adds a group by itself first.
TEST(PlainReduction, ShowsTheOrder) {
  const auto model = tied_model();
  const PlainModel plain(plan::flat_groups(model), plan::occurrences(model), 1);
  EXPECT_NE(plain.reduced(Values::scattered, 0, 6, 1), plain.reduced(Values::scattered, 0, 6, 2));
  EXPECT_EQ(plain.reduced(Values::integers, 0, 6, 1), plain.reduced(Values::integers, 0, 6, 2));
  EXPECT_NE(plain.reduced(Values::scattered, 0, 6, 2), plain.reduced(Values::scattered, 0, 6, 3));
  float exact = 0;
  for (int micro = 0; micro < 6; ++micro)
    for (int occurrence = 0; occurrence < 2; ++occurrence) exact += value(Values::integers, 0, micro, 0, occurrence, 7);
  EXPECT_EQ(plain.reduced(Values::integers, 0, 6, 3)[0][7], exact);
}

}  // namespace
}  // namespace trainyard::test

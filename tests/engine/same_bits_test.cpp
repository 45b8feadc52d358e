// Promise 2 (libtrain/README.md): losses and weights do not depend on ranks, ZeRO stage, threads or recomputation, nor
// on a stop and a resume on another layout.
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <map>

namespace trainyard {
namespace same_bits_test {

using testing::ParallelLayout;
using testing::SmallRun;

std::string name_of(const ParallelLayout& c) {
  return fmt::format("{} ranks, ZeRO {}, {} threads, {}, recompute {}", c.ranks, c.zero, c.threads, c.dtype,
                     c.recompute);
}

void expect_same(SmallRun& runs, engine::RunConfig config, const std::vector<ParallelLayout>& layouts) {
  std::string expected;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    auto c = config;
    c.output += fmt::format("-{}", i);
    const auto bits = runs.bits(c, runs.run(c, layouts[i]));
    ASSERT_FALSE(bits.empty());
    if (i == 0) expected = bits;
    EXPECT_EQ(bits, expected) << name_of(layouts[i]);
  }
}

// By day half of the pairs.
TEST(SameBits, EveryRankCountAndStage) {
  SmallRun runs;
  std::vector<ParallelLayout> layouts;
  for (int ranks : {1, 2, 3, 4, 6, 7})
    for (int zero : {0, 1, 2, 3})
      if (testing::at_night() || (ranks + zero) % 2 == 1)
        layouts.push_back({ranks, zero, 1 + ranks % 2, "f32",
                           plan::name_of(plan::recomputations[static_cast<std::size_t>(ranks + zero) % 3])});
  auto config = runs.config("f32");
  config.steps = testing::by_day_or_night(6, 20);
  expect_same(runs, config, layouts);
}

TEST(SameBits, Bf16AndLlamaWithDocumentMask) {
  SmallRun runs;
  auto config = runs.config("bf16");
  config.model = runs.llama();
  config.document_mask = "on", config.steps = testing::by_day_or_night(6, 20);
  expect_same(runs, config,
              {{1, 0, 1, "bf16"},
               {1, 3, 2, "bf16"},
               {2, 1, 1, "bf16"},
               {3, 2, 1, "bf16", "selective"},
               {4, 3, 1, "bf16", "full"},
               {6, 0, 1, "bf16"}});
}

TEST(SameBits, AnyLocalAccumulation) {
  SmallRun runs;
  for (std::int64_t local_accumulation : {2, 7}) {
    auto config = runs.config(fmt::format("fold{}", local_accumulation));
    config.local_accumulation = local_accumulation, config.steps = testing::by_day_or_night(6, 20);
    std::vector<ParallelLayout> layouts;
    for (int ranks : {1, 2, 3}) {
      if (ranks > 14 / local_accumulation) continue;
      for (int zero : {0, 1, 2, 3}) layouts.push_back({ranks, zero, 1});
    }
    expect_same(runs, config, layouts);
  }
}

// Zero groups of all kinds against one rank: f32, and bf16 with whole matrices, tensor parallelism, pipeline stages of
// which two hold a tied table, accumulation depth and breadth first, validations. They send and take what the plan
// says.
TEST(SameBits, ZeroGroups) {
  SmallRun runs;
  struct Case {
    int ranks, group, tensor = 1, pipeline = 1;
    bool breadth = false;
    std::string recompute = "none";
  };
  const std::vector<Case> cases = {{4, 2},       {6, 3},      {6, 2, 1, 1, true}, {8, 4, 1, 1, false, "full"},
                                   {8, 2, 2, 1}, {8, 2, 1, 2}};
  for (const char* dtype : {"f32", "bf16"}) {
    auto config = runs.config(fmt::format("zero-groups-{}", dtype));
    config.steps = 3, config.validate_every = 2, config.validation_sequences = 5;
    if (dtype == std::string("bf16")) config.optimizer = "muon";
    const auto expected = runs.bits(config, runs.run(config, {1, 0, 1, dtype}));
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& of = cases[i];
      if (i % 2 != (dtype == std::string("f32") ? 1 : 0)) continue;
      ParallelLayout layout{.ranks = of.ranks, .zero = 3, .dtype = dtype, .recompute = of.recompute};
      layout.tensor = of.tensor, layout.pipeline = of.pipeline;
      layout.breadth_first = of.breadth, layout.zero_group = of.group;
      auto c = config;
      c.output += fmt::format("-{}", i);
      const auto text =
          fmt::format("{}, groups of {}, tensor {}, {} stages", name_of(layout), of.group, of.tensor, of.pipeline);
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << text;
      testing::expect_no_difference(runs.reports(), text, [&](std::size_t rank) {
        return of.breadth && rank >= 14 % 6;  // 14 micro-batches of 6 ranks
      });
      EXPECT_NE(runs.reports()[0].find("zero_group all_gather"), std::string::npos) << runs.reports()[0];
    }
  }
}

// Gradients are added inside of nodes first, then from node to node: the bits of one rank, at each ZeRO stage, with
// zero groups of more, fewer and as many ranks, tensor parallelism, stages of which two hold a tied table, and sums
// that are rounded to bf16. 14 micro-batches of 6 ranks end with an accumulation step of the first node alone.
TEST(SameBits, ReductionNodes) {
  SmallRun runs;
  struct Case {
    int ranks, node, zero, tensor = 1, pipeline = 1, group = 0;
    std::int64_t local_accumulation = 1;
    bool breadth = false;
  };
  const std::vector<Case> cases = {{4, 2, 0},
                                   {6, 2, 1},
                                   {8, 2, 3, 1, 1, 4},
                                   {8, 2, 3, 2, 1, 2},
                                   {8, 2, 1, 1, 2},
                                   {6, 2, 3, 1, 1, 0, 2},
                                   {6, 3, 2, 1, 1, 0, 1, true}};
  std::map<std::int64_t, std::string> expected;
  for (const char* dtype : {"f32", "bf16"})
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& of = cases[i];
      if (i % 2 != (dtype == std::string("f32") ? 0 : 1)) continue;
      auto config = runs.config(fmt::format("reduction-nodes-{}-{}", dtype, of.local_accumulation));
      config.steps = 3, config.local_accumulation = of.local_accumulation;
      ParallelLayout layout{.ranks = 1, .dtype = dtype, .sums = dtype};
      auto& bits = expected[of.local_accumulation + (dtype == std::string("f32") ? 0 : 100)];
      if (bits.empty()) bits = runs.bits(config, runs.run(config, layout));
      layout.ranks = of.ranks, layout.zero = of.zero, layout.tensor = of.tensor, layout.pipeline = of.pipeline;
      layout.zero_group = of.group, layout.reduction_node = of.node, layout.breadth_first = of.breadth;
      config.output += fmt::format("-{}", i);
      const auto text =
          fmt::format("{}, nodes of {}, tensor {}, {} stages", name_of(layout), of.node, of.tensor, of.pipeline);
      EXPECT_EQ(runs.bits(config, runs.run(config, layout)), bits) << text;
      testing::expect_no_difference(runs.reports(), text,
                                    [&](std::size_t rank) { return of.breadth && rank >= 14 % 6; });
      EXPECT_NE(runs.reports()[0].find("reduction_outer partial_sums"), std::string::npos) << runs.reports()[0];
    }
}

// A checkpoint is written once on each layout, and resumed once on each.
TEST(SameBits, StopAndResumeOnAnotherCut) {
  SmallRun runs;
  std::vector<ParallelLayout> layouts = {{1, 0, 2}, {2, 3, 1}, {3, 1, 1}, {4, 2, 1}, {6, 3, 1}};
  layouts.back().zero_group = 3, layouts[3].reduction_node = 2;
  auto whole = runs.config("whole");
  whole.steps = testing::by_day_or_night(8, 20);
  const auto expected = runs.bits(whole, runs.run(whole, layouts[0]));
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    auto c = whole;
    c.output = runs.config(fmt::format("resumed-{}", i)).output;
    c.save_every = testing::by_day_or_night(2, 4);
    c.stop_after = testing::by_day_or_night(3, 9);
    ASSERT_EQ(runs.run(c, layouts[i]).code, base::ExitCode::requeue);
    c.stop_after = 0;
    const auto result = runs.run(c, layouts[(i + 1) % layouts.size()]);
    EXPECT_EQ(result.code, base::ExitCode::done);
    EXPECT_EQ(runs.bits(c, result), expected)
        << name_of(layouts[i]) << " resumed on " << name_of(layouts[(i + 1) % layouts.size()]);
  }
}

// The comparison must be able to fail: another seed, and a reduction in the library's order, give other bits.
TEST(SameBits, OtherNumbersGiveOtherBits) {
  SmallRun runs;
  auto a = runs.config("a");
  a.steps = 6;
  auto b = a, c = a;
  b.output += "-seed", b.seed = 2;
  EXPECT_NE(runs.bits(a, runs.run(a, {1, 0, 1})), runs.bits(b, runs.run(b, {1, 0, 1})));
  c.output += "-groups", c.local_accumulation = 7;
  EXPECT_NE(runs.bits(a, runs.run(a, {1, 0, 1})), runs.bits(c, runs.run(c, {1, 0, 1})));
}

// Promise 3 (libtrain/README.md): every line of the memory and traffic reports has a difference of 0 on every rank.
// By day every ZeRO stage has the one reduction, or the other.
TEST(Accounting, PredictedIsMeasured) {
  SmallRun runs;
  int n = 0;
  for (const auto& [ranks, local_accumulation] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 14}, {2, 1}, {3, 1}, {3, 2}, {4, 1}, {2, 7}})
    for (int zero : {0, 1, 2, 3})
      for (const auto reduction : {plan::Reduction::ordered, plan::Reduction::fast}) {
        const bool at_night = (n / 8 + n / 2 + n) % 2 == 1;
        auto c = runs.config(fmt::format("accounts-{}", n++));
        if (at_night && !testing::at_night()) continue;
        c.model = n % 4 < 2 ? runs.gpt() : runs.llama();
        c.local_accumulation = local_accumulation;
        c.steps = 2;
        c.reduction = reduction;
        c.validate_every = 2;
        c.validation_sequences = 5;
        runs.run(c, {ranks, zero, 1, n % 2 == 0 ? "f32" : "bf16", n % 3 == 0 ? "full" : "none"});
        testing::expect_no_difference(
            runs.reports(), fmt::format("{} ranks, local accumulation {}, ZeRO {}, {}", ranks, local_accumulation, zero,
                                        static_cast<int>(reduction)));
      }
}

}  // namespace same_bits_test
}  // namespace trainyard

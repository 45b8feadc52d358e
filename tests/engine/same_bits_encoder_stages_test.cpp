// Promises 2 and 3 (libtrain/README.md) for pipelines of models with an encoder. A covering array has every pair of
// choices among schedules, pipeline stages, tensor and sequence parallelism, ZeRO stages, data parallelism,
// recomputation, dtypes and models. Every run has the bits of one rank.
// --gtest_also_run_disabled_tests runs every triple.
#include "libtrain/engine/evaluate.h"
#include "tests/engine/encoder_runs.h"
#include "tests/engine/every_layout.h"

namespace trainyard {
namespace same_bits_encoder_stages_test {

using testing::bits_with_sets;
using testing::encoder_run;
using testing::ParallelLayout;
using testing::SmallRun;

// schedule, pipeline stages, tensor and sequence parallelism, ZeRO stage, data-parallel degree, recomputation, dtype,
// model
using Choice = testing::Choice<8>;
constexpr std::array<int, 8> levels = {6, 3, 3, 4, 2, 3, 2, 4};

ParallelLayout layout_of(const Choice& c) {
  const std::array<const char*, 6> schedules = {"1f1b", "interleaved", "gpipe", "interleaved", "naive", "zero-bubble"};
  ParallelLayout layout;
  testing::share_layers(layout, c[2]);
  layout.pipeline = c[1] + 2;
  layout.schedule = schedules[static_cast<std::size_t>(c[0])];
  layout.virtual_stages = c[0] == 3 ? 2 : 1;
  layout.zero = c[3];
  layout.ranks = (c[4] + 1) * layout.tensor * layout.pipeline;
  layout.recompute = c[0] == 5 ? "none" : testing::recomputation_of_level(c[5]);
  layout.dtype = c[6] == 0 ? "f32" : "bf16";
  if (c[7] == 1 && c[4] == 1 && c[1] == 1) layout.experts = 2;
  return layout;
}

engine::RunConfig config_of(SmallRun& runs, const Choice& choice, const std::string& output) {
  auto c = encoder_run(runs, choice[7], output);
  c.steps = c.validate_every = 2;
  return c;
}

void expect_every(testing::Strength strength) {
  SmallRun runs;
  testing::expect_every<8>(strength, runs, {levels, layout_of, config_of, {7}, bits_with_sets});
}

TEST(SameBitsEncoderStages, EveryPair) { expect_every(testing::Strength::pairs); }
TEST(SameBitsEncoderStages, DISABLED_EveryTriple) { expect_every(testing::Strength::triples); }

// Each item alone; a stage of the bridge alone, of the embedding, of the head; towers cut anywhere.
TEST(SameBitsEncoderStages, OddCuts) {
  SmallRun runs;
  for (const int model : {0, 3}) {
    auto one = encoder_run(runs, model, fmt::format("one-{}", model));
    one.global_batch = 12, one.steps = one.validate_every = 2;
    const auto expected = bits_with_sets(runs, one, runs.run(one, {}));
    int n = 0;
    for (const auto& [stages, chunks, partition] : {std::tuple{8, 1, "uniform"},
                                                    {3, 1, "0,4,5"},
                                                    {2, 1, "0,1"},
                                                    {2, 1, "0,7"},
                                                    {2, 1, "0,5"},
                                                    {4, 2, "parameters"},
                                                    {2, 3, "0,1,2,4,6,7"},
                                                    {3, 2, "0,2,4,5,6,7"}}) {
      auto c = one;
      c.output += fmt::format("-{}", n++);
      ParallelLayout layout;
      layout.ranks = layout.pipeline = stages, layout.virtual_stages = chunks, layout.partition = partition;
      if (chunks > 1) layout.schedule = "interleaved";
      else if (n % 2 == 0) layout.schedule = "zero-bubble";
      layout.zero = n % 4;
      EXPECT_EQ(bits_with_sets(runs, c, runs.run(c, layout)), expected) << model << ": " << partition;
      testing::expect_no_difference(runs.reports(), partition);
    }
  }
}

// Breadth first, and two data-parallel ranks of which one has fewer micro-batches.
TEST(SameBitsEncoderStages, BreadthFirstAndUnevenSteps) {
  SmallRun runs;
  for (const int model : {0, 1}) {
    auto one = encoder_run(runs, model, fmt::format("even-{}", model)), cut = one;
    one.global_batch = cut.global_batch = 20;
    cut.output += "-cut";
    ParallelLayout layout;
    layout.ranks = 4, layout.pipeline = 2, layout.schedule = "gpipe", layout.zero = 3, layout.breadth_first = true;
    const auto want = bits_with_sets(runs, one, runs.run(one, {}));
    EXPECT_EQ(bits_with_sets(runs, cut, runs.run(cut, layout)), want) << model;
    testing::expect_no_difference(runs.reports(), "breadth first", [](std::size_t) { return true; });
  }
}

TEST(SameBitsEncoderStages, StopsAndGoesOnOnAnotherCut) {
  SmallRun runs;
  for (const int model : {2, 3}) {
    auto whole = encoder_run(runs, model, fmt::format("whole-{}", model)), c = whole;
    const auto want = bits_with_sets(runs, whole, runs.run(whole, {}));
    ParallelLayout first, second;
    first.ranks = 6, first.pipeline = 3, first.tensor = 2, first.zero = 1;
    second.ranks = 4, second.pipeline = 2, second.virtual_stages = 2, second.schedule = "interleaved", second.zero = 3;
    c.output += "-stopped", c.stop_after = 1;
    ASSERT_EQ(runs.run(c, first).code, base::ExitCode::requeue);
    c.stop_after = 0;
    EXPECT_EQ(bits_with_sets(runs, c, runs.run(c, second)), want);
  }
}

}  // namespace same_bits_encoder_stages_test
}  // namespace trainyard

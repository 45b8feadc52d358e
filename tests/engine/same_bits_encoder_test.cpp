// Promises 2 and 3 (libtrain/README.md) for models with an encoder. A covering array has every pair of choices among
// tensor and sequence parallelism, ZeRO stages, data parallelism, local accumulation, recomputation, dtypes, threads
// and models, which learn pairs, restore texts, or both. Every run has the bits of one rank.
// --gtest_also_run_disabled_tests runs every triple.
#include "libtrain/engine/evaluate.h"
#include "tests/engine/encoder_runs.h"
#include "tests/engine/every_layout.h"

#include <set>

namespace trainyard {
namespace same_bits_encoder_test {

using testing::ParallelLayout;
using testing::SmallRun;

// Runs of tests/engine/encoder_runs.h.
engine::RunConfig config_of(SmallRun& runs, int model, const std::string& output) {
  return testing::encoder_run(runs, model, output);
}
using testing::bits_with_sets;

// tensor and sequence parallelism, ZeRO stage, data-parallel degree, threads, recomputation, dtype, expert parallelism,
// model
using Choice = testing::Choice<8>;
constexpr std::array<int, 8> levels = {3, 4, 3, 2, 3, 2, 2, 4};

ParallelLayout layout_of(const Choice& c) {
  ParallelLayout layout;
  testing::share_layers(layout, c[0]);
  layout.zero = c[1];
  layout.ranks = (c[2] + 1) * layout.tensor;
  layout.threads = 1 + c[3];
  layout.recompute = testing::recomputation_of_level(c[4]);
  layout.dtype = c[5] == 0 ? "f32" : "bf16";
  if (c[7] == 1 && c[2] == 1 && c[6] == 1) layout.experts = 2;
  return layout;
}

void expect_every(testing::Strength strength) {
  SmallRun runs;
  const auto expected = testing::expect_every<8>(
      strength, runs,
      {levels,
       layout_of,
       [](SmallRun& of, const Choice& choice, const std::string& output) { return config_of(of, choice[7], output); },
       {7},
       bits_with_sets});
  std::set<std::string> different;
  for (const auto& [of, bits] : expected) different.insert(bits);
  EXPECT_EQ(different.size(), expected.size());
  EXPECT_GE(different.size(), testing::by_day_or_night(4u, 6u));  // models and dtypes
}

TEST(SameBitsEncoder, EveryPair) { expect_every(testing::Strength::pairs); }
TEST(SameBitsEncoder, DISABLED_EveryTriple) { expect_every(testing::Strength::triples); }

// Three data-parallel ranks and pairs of accumulated micro-batches: some ranks have no sequences in the last step.
TEST(SameBitsEncoder, RanksWithoutSequences) {
  SmallRun runs;
  for (const int model : {0, 1}) {
    auto one = config_of(runs, model, fmt::format("even-{}", model)), cut = one;
    one.local_accumulation = cut.local_accumulation = 2;
    cut.output += "-cut";
    one.global_batch = cut.global_batch = 32;
    const auto want = bits_with_sets(runs, one, runs.run(one, {}));
    EXPECT_EQ(bits_with_sets(runs, cut, runs.run(cut, {3, 2})), want);
  }
}

// Experts of both towers are divided between ranks, of which two have no sequences in the last accumulation step.
TEST(SameBitsEncoder, ExpertsOfRanksWithoutSequences) {
  SmallRun runs;
  for (const auto& [sequence, source] : {std::pair{32, 64}, {64, 32}}) {
    auto one = config_of(runs, 1, fmt::format("all-{}", sequence)), cut = one;
    one.sequence = cut.sequence = sequence, one.source_sequence = cut.source_sequence = source;
    cut.output += "-cut";
    const auto want = bits_with_sets(runs, one, runs.run(one, {}));
    ParallelLayout layout{4, 1};
    layout.experts = 2;
    EXPECT_EQ(bits_with_sets(runs, cut, runs.run(cut, layout)), want) << source;
    testing::expect_no_difference(runs.reports(), "4 ranks");
  }
}

TEST(SameBitsEncoder, StatesOnDisk) {
  SmallRun runs;
  for (const int model : {0, 3}) {
    auto memory = config_of(runs, model, fmt::format("memory-{}", model)), disk = memory;
    disk.output += "-disk", disk.offload_dir = runs.folder().string();
    disk.offload = plan::offload_of_text("optimizer=disk,parameters=disk", "test");
    const auto want = bits_with_sets(runs, memory, runs.run(memory, {}));
    EXPECT_EQ(bits_with_sets(runs, disk, runs.run(disk, {2, 3})), want);
    testing::expect_no_difference(runs.reports(), "states on disk");
  }
}

TEST(SameBitsEncoder, StopsAndGoesOnOnAnotherLayout) {
  SmallRun runs;
  for (const int model : {1, 2, 3}) {
    auto whole = config_of(runs, model, fmt::format("whole-{}", model)), c = whole;
    const auto want = bits_with_sets(runs, whole, runs.run(whole, {}));
    c.output += "-stopped", c.stop_after = 1;
    ParallelLayout tensor{4, 3};
    tensor.tensor = 2;
    ASSERT_EQ(runs.run(c, tensor).code, base::ExitCode::requeue);
    c.stop_after = 0;
    EXPECT_EQ(bits_with_sets(runs, c, runs.run(c, {3, 1})), want);
  }
}

TEST(SameBitsEncoder, AnEvaluationIsTheValidationOfTheRun) {
  SmallRun runs;
  for (const int model : {0, 1}) {
    auto c = config_of(runs, model, fmt::format("trained-{}", model));
    runs.run(c, {2, 1});
    const auto recorded = SmallRun::metrics(c).back()["validation_loss"].get<double>();
    engine::EvaluateConfig e;
    e.checkpoint = c.output, e.sequences = 4;
    e.run.device = "cpu", e.run.threads = 1, e.run.hang_timeout = 120;
    auto world = engine::solo_world();
    const auto found = engine::evaluate(e, world, {});
    EXPECT_EQ(found.loss, recorded) << model;
    EXPECT_EQ(found.objective, model == 0 ? "pairs" : "spans");
    EXPECT_EQ(found.unmeasured == 0, model == 0);
  }
}

class RefusedEncoder : public ::testing::Test {
 protected:
  std::string said(const engine::RunConfig& c) {
    return testing::error_text_of([&] { runs.run(c, {}); });
  }
  void expect(const engine::RunConfig& c, const std::string& words) {
    EXPECT_NE(said(c).find(words), std::string::npos) << said(c);
  }
  SmallRun runs;
};

TEST_F(RefusedEncoder, SettingsThatMeanNothing) {
  const auto pairs = config_of(runs, 0, "a"), texts = config_of(runs, 1, "b");
  auto c = pairs;
  c.objective = "spans";
  expect(c, "--objective is for texts that are restored");
  c = pairs, c.mask_rate = 0.2;
  expect(c, "--mask-rate is for texts that are restored");
  c = texts, c.objective = "causal";
  expect(c, "--objective causal: model \"custom\" has an encoder");
  c = texts, c.document_mask = "on", c.answers_only = true, c.mask_words = "on";
  expect(c, "--document-mask on: pairs are always kept apart");
  expect(c, "--answers-only on");
  expect(c, "--mask-words on");
  c = texts, c.alternate_sets = true;
  expect(c, "--alternate-sets on: --data");
  c = runs.config("c"), c.objective = "infilling", c.mask_span = 3;
  expect(c, "--objective infilling: model");
  expect(c, "--mask-span 3 is for models with an encoder");
  c = runs.config("d"), c.source_sequence = 16;
  expect(c, "--source-sequence 16 is for models with an encoder");
}

// Turns of another size would read other sequences of each set.
TEST_F(RefusedEncoder, AnotherBatchWhereSetsAlternate) {
  auto c = config_of(runs, 2, "turns");
  c.stop_after = 1;
  runs.run(c, {});
  c.stop_after = 0, c.global_batch = 48, c.change = "global-batch";
  expect(c, "--alternate-sets on keeps --global-batch as it is");
  c.alternate_sets = false, c.global_batch = 24;
  c.change = "";
  expect(c, "alternate-sets");
}

TEST_F(RefusedEncoder, ActivationsElsewhere) {
  auto c = config_of(runs, 0, "elsewhere");
  c.recompute = plan::recomputation_of_text("full", "test"), c.offload_dir = runs.folder().string();
  c.offload = plan::offload_of_text("activations=disk", "test");
  expect(c, "is not supported with an encoder: inputs of layers");
}

TEST_F(RefusedEncoder, LengthsThatHoldNothing) {
  auto c = config_of(runs, 0, "a");
  c.sequence = 2;
  expect(c, "fits a row of 64 source and 2 target tokens");
  c = config_of(runs, 1, "b");
  c.sequence = 8, c.source_sequence = 64;
  expect(c, "--sequence");
}

}  // namespace same_bits_encoder_test
}  // namespace trainyard

// Promise 2 (libtrain/README.md) for tensor parallelism. A covering array has every pair of choices among tensor and
// sequence parallelism, ZeRO stages, data parallelism, dtypes, recomputation, dropout and models. Every run and every
// resume has the bits of one rank.
// --gtest_also_run_disabled_tests runs every triple, and every choice.
#include "tests/engine/every_layout.h"
#include "tests/night.h"

#include <array>

namespace trainyard {
namespace same_bits_tensor_test {

using testing::ParallelLayout;
using testing::SmallRun;

// tensor and sequence parallelism, ZeRO stage, data-parallel degree, dtype, recomputation, dropout, model
constexpr std::array<int, 7> levels = {5, 4, 3, 2, 3, 2, 2};
using Choice = testing::Choice<levels.size()>;

ParallelLayout layout_of(const Choice& c) {
  const std::array<int, 5> tensor = {1, 2, 2, 4, 4};
  ParallelLayout layout;
  layout.tensor = tensor[static_cast<std::size_t>(c[0])];
  layout.sequence_parallel = c[0] == 2 || c[0] == 4;
  layout.zero = c[1];
  layout.ranks = (c[2] + 1) * layout.tensor;
  layout.dtype = c[3] == 0 ? "f32" : "bf16";
  layout.recompute = testing::recomputation_of_level(c[4]);
  layout.threads = 1 + (c[0] + c[1] + c[2] + c[4]) % 2;
  return layout;
}

// Eight heads on four key-value heads, and four lanes. A step has five micro-batches of 256 tokens, or with dropout
// three local accumulation groups of two. Both leave the last accumulation step uneven. A Llama's labels are smoothed.
engine::RunConfig config_of(SmallRun& runs, bool dropout, bool llama, const std::string& output) {
  auto c = runs.config(output);
  c.model = runs.model(fmt::format("tensor-{}-{}", dropout, llama),
                       std::string("layers = 2\nhidden = 32\nheads = 8\nkv-heads = 4\nffn = 64\ncontext = 64\n") +
                           (llama ? "norm = \"rms\"\npositions = \"rotary\"\nactivation = \"swiglu\"\nbiases = "
                                    "\"off\"\ntied = \"off\"\n"
                                  : "") +
                           (dropout ? "dropout-embedding = 0.1\ndropout-attention = 0.1\ndropout-attention-residual = "
                                      "0.2\ndropout-ffn-residual = 0.1\n"
                                    : ""));
  c.steps = testing::by_day_or_night(3, 5);
  c.micro_batch = 4;
  c.global_batch = dropout ? 24 : 20;
  c.local_accumulation = dropout ? 2 : 1;
  c.document_mask = llama ? "on" : "off";
  c.label_smoothing = llama ? 0.1 : 0;
  c.validate_every = c.steps;
  c.validation_sequences = 8;
  return c;
}

testing::LayoutChoices<levels.size()> choices() {
  const auto config = [](SmallRun& runs, const Choice& choice, const std::string& output) {
    return config_of(runs, choice[5] == 1, choice[6] == 1, output);
  };
  return {levels, layout_of, config, {5, 6}};
}

void expect_every(testing::Strength strength) {
  SmallRun runs;
  // dtypes, dropout, models
  EXPECT_GE(testing::expect_every(strength, runs, choices()).size(), testing::by_day_or_night(5u, 8u));
}

TEST(SameBitsTensor, EveryPair) { expect_every(testing::Strength::pairs); }
TEST(SameBitsTensor, DISABLED_EveryTriple) { expect_every(testing::Strength::triples); }

TEST(SameBitsTensor, DISABLED_EveryChoice) {
  SmallRun runs;
  testing::expect_bits_of_one_rank(runs, choices(), testing::shared_choices(levels));
}

// A checkpoint is written once on each layout, and resumed once on each.
TEST(SameBitsTensor, StopAndResumeOnAnotherCut) {
  SmallRun runs;
  const std::vector<ParallelLayout> layouts = {{1, 0, 1, "bf16"},
                                               {4, 3, 1, "bf16", "none", 2, false},
                                               {4, 1, 1, "bf16", "none", 4, true},
                                               {6, 2, 1, "bf16", "full", 2, true},
                                               {3, 3, 1, "bf16", "selective"},
                                               {8, 0, 1, "bf16", "none", 4, false}};
  auto whole = config_of(runs, true, false, "whole");
  const auto expected = runs.bits(whole, runs.run(whole, layouts[0]));
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const auto& next = layouts[(i + 1) % layouts.size()];
    auto c = config_of(runs, true, false, fmt::format("resumed-{}", i));
    c.stop_after = 2;
    ASSERT_EQ(runs.run(c, layouts[i]).code, base::ExitCode::requeue);
    c.stop_after = 0;
    const auto result = runs.run(c, next);
    EXPECT_EQ(result.code, base::ExitCode::done);
    EXPECT_EQ(runs.bits(c, result), expected)
        << testing::text_of(layouts[i]) << " resumed on " << testing::text_of(next);
  }
}

// Norms of queries and keys, over heads of another size and over their width: on every kind of layout the bits of one
// rank, the predicted memory and the predicted bytes.
TEST(SameBitsTensor, NormsOfQueriesAndKeys) {
  SmallRun runs;
  const std::vector<ParallelLayout> layouts = {{2, 0, 1, "f32", "none", 2, false},
                                               {8, 3, 1, "f32", "selective", 4, true},
                                               {4, 1, 2, "f32", "none", 2, true, 2, "zero-bubble"},
                                               {4, 2, 1, "f32", "full", 2, false, 2, "interleaved", 1},
                                               {3, 1, 1, "f32", "selective"}};
  for (const std::string norm : {"head", "width"}) {
    const auto config = [&](const std::string& output) {
      auto c = config_of(runs, false, true, output);
      c.model = runs.model("normed-" + norm,
                           "layers = 2\nhidden = 32\nheads = 8\nkv-heads = 4\nffn = 64\ncontext = 64\nnorm = \"rms\"\n"
                           "positions = \"rotary\"\nactivation = \"swiglu\"\nbiases = \"qkv\"\nhead-size = 6\n"
                           "qk-norm = \"" +
                               norm +
                               "\"\nquery-scale = 0.5\ndropout-attention-residual = 0.1\n"
                               "[rotary]\nscaling = \"llama3\"\nfactor = 4\noriginal = 32\n");
      return c;
    };
    auto one = config("normed-one-" + norm);
    const auto expected = runs.bits(one, runs.run(one, {1, 0, 1}));
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      auto c = config(fmt::format("normed-{}-{}", norm, i));
      EXPECT_EQ(runs.bits(c, runs.run(c, layouts[i])), expected) << norm << ", " << testing::text_of(layouts[i]);
      testing::expect_no_difference(runs.reports(), norm + ", " + testing::text_of(layouts[i]));
    }
  }
}

// The comparison must be able to fail: another number of lanes gives other sums.
TEST(SameBitsTensor, OtherLanesGiveOtherBits) {
  SmallRun runs;
  auto a = config_of(runs, false, false, "four"), b = a;
  b.output += "-one";
  b.model =
      runs.model("one-lane", "layers = 2\nhidden = 32\nheads = 8\nkv-heads = 4\nffn = 64\ncontext = 64\nlanes = 1\n");
  EXPECT_NE(runs.bits(a, runs.run(a, {1, 0, 1})), runs.bits(b, runs.run(b, {1, 0, 1})));
}

}  // namespace same_bits_tensor_test
}  // namespace trainyard

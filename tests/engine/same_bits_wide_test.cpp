// Promise 2 (libtrain/README.md) for a model of 512 channels and 2048 tokens a micro-batch, by day 512, where
// products have many tiles and blocks. --gtest_also_run_disabled_tests runs every choice.
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace same_bits_wide_test {

using testing::ParallelLayout;
using testing::SmallRun;

engine::RunConfig wide(SmallRun& runs, const std::string& output) {
  auto c = runs.config(output);
  c.model = runs.model("wide",
                       "layers = 2\nhidden = 512\nheads = 8\nkv-heads = 8\nffn = 2048\ncontext = "
                       "512\ndropout-embedding = 0.1\ndropout-attention = 0.1\n"
                       "dropout-attention-residual = 0.1\ndropout-ffn-residual = 0.1\n");
  c.micro_batch = 4;
  c.global_batch = 24;
  c.learning_rate = 0.001;
  return c;
}

void expect_same(SmallRun& runs, const engine::RunConfig& config, const std::vector<ParallelLayout>& layouts) {
  std::string expected;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    auto c = config;
    c.output += fmt::format("-{}", i);
    const auto bits = runs.bits(c, runs.run(c, layouts[i]));
    if (i == 0) expected = bits;
    ASSERT_EQ(bits, expected) << layouts[i].ranks << " ranks, ZeRO " << layouts[i].zero << ", " << layouts[i].threads
                              << " threads, " << layouts[i].dtype;
  }
}

TEST(SameBitsWide, FourCuts) {
  SmallRun runs;
  auto c = wide(runs, "short");
  c.steps = 2;
  c.micro_batch = testing::by_day_or_night(1, 4), c.global_batch = 3 * c.micro_batch;
  expect_same(runs, c, {{1, 0, 2}, {2, 3, 1}, {3, 1, 1, "f32", "full"}});
  c.output += "-bf16";
  expect_same(runs, c, {{1, 2, 1, "bf16"}, {3, 3, 2, "bf16"}});
}

TEST(SameBitsWide, DISABLED_WholeMatrix) {
  SmallRun runs;
  for (const std::string dtype : {"f32", "bf16"}) {
    std::vector<ParallelLayout> layouts;
    for (int ranks : {1, 2, 3, 4, 6})
      for (int zero : {0, 1, 2, 3}) layouts.push_back({ranks, zero, 1 + (ranks + zero) % 2, dtype});
    expect_same(runs, wide(runs, "whole-" + dtype), layouts);
  }
}

}  // namespace same_bits_wide_test
}  // namespace trainyard

// Promise 2 (libtrain/README.md) for block-sparse attention, windows of tokens and capped scores. A covering array has
// every pair of choices among tensor parallelism, pipeline stages, ZeRO stages, data parallelism, threads,
// recomputation and attention layouts. Every run has the bits of one rank.
// --gtest_also_run_disabled_tests runs every triple.
#include "tests/engine/every_layout.h"

namespace trainyard {
namespace same_bits_sparse_test {

using testing::SmallRun;

// tensor and sequence parallelism, pipeline stages and schedule, ZeRO stage, data-parallel degree, threads,
// recomputation, attention layouts
using Choice = testing::Choice<7>;

engine::RunConfig config_of(SmallRun& runs, const Choice& choice, const std::string& output) {
  const int layouts = choice[6];
  auto c = runs.config(output);
  const std::string drawn = "layout = \"bigbird\"\nblock = 16\nwindow = 1\nrandom = 1\nper-head = \"on\"\nseed = 3\n";
  const std::string windows =
      "layout = \"dense, sliding x2\"\nblock = 16\nwindow = 2\nwindow-tokens = \"70, 20, 0\"\nsoftcap = 0.5\n";
  const std::string fixed = "layout = \"fixed\"\nblock = 32\nlocal = \"2\"\npatterns = 2\nper-head = \"on\"\n";
  c.model = runs.model(fmt::format("sparse-{}", layouts),
                       "layers = 4\nhidden = 32\nheads = 4\nkv-heads = 2\nffn = 64\ncontext = 96\ndropout-attention = "
                       "0.1\nlanes = 2\n[attention]\n" +
                           (layouts == 0   ? drawn
                            : layouts == 1 ? windows
                                           : fixed));
  c.sequence = 96;
  c.steps = 2;
  c.micro_batch = 4;
  c.global_batch = 24;
  c.validate_every = 2;
  c.validation_sequences = 4;
  return c;
}

void expect_every(testing::Strength strength) {
  SmallRun runs;
  const auto bits =
      testing::expect_every<7>(strength, runs, {{3, 3, 4, 2, 2, 3, 3}, testing::layout_of_six<7>, config_of, {6}});
  ASSERT_EQ(bits.size(), 3u);
  EXPECT_NE(bits.begin()->second, bits.rbegin()->second);
}

TEST(SameBitsSparse, EveryPair) { expect_every(testing::Strength::pairs); }
TEST(SameBitsSparse, DISABLED_EveryTriple) { expect_every(testing::Strength::triples); }

}  // namespace same_bits_sparse_test
}  // namespace trainyard

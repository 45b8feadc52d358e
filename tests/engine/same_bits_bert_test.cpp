// Promise 2 (libtrain/README.md) for the parts of BERT: post-norm, exact GELU, a norm of the embeddings, segments and
// the masked head. A covering array has every pair of choices among tensor parallelism, pipeline stages and
// schedules, ZeRO stages, data parallelism, recomputation, dtypes and models. Every run has the bits of one rank.
// --gtest_also_run_disabled_tests runs every triple.
#include "tests/engine/every_layout.h"

#include <set>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

// tensor and sequence parallelism, pipeline stages and schedule, ZeRO stage, data-parallel degree, recomputation,
// dtype, model
using Choice = testing::Choice<7>;

ParallelLayout layout_of(const Choice& c) {
  ParallelLayout layout;
  layout.recompute = testing::recomputation_of_level(c[4]);
  testing::share_layers(layout, c[0]);
  testing::put_into_stages(layout, c[1]);
  layout.zero = c[2];
  layout.ranks = (c[3] + 1) * layout.tensor * layout.pipeline;
  layout.dtype = c[5] == 0 ? "f32" : "bf16";
  return layout;
}

// Post-norm with a tied and an untied head, and all parts of BERT.
engine::RunConfig config_of(SmallRun& runs, const Choice& choice, const std::string& output) {
  const int model = choice[6];
  auto c = runs.config(output);
  c.model = runs.model(fmt::format("post-{}", model),
                       std::string("layers = 4\nhidden = 32\nheads = 4\nffn = 64\ncontext = 64\nlanes = 2\n"
                                   "norm-position = \"post\"\nactivation = \"gelu-erf\"\ndropout-embedding = 0.1\n"
                                   "dropout-attention-residual = 0.2\ndropout-ffn-residual = 0.1\n") +
                           (model == 0   ? "tied = \"on\"\n"
                            : model == 1 ? "tied = \"off\"\n"
                                         : "embedding-norm = \"on\"\nsegments = 2\nhead = \"masked\"\n"));
  c.steps = 3;
  c.micro_batch = 2;
  c.global_batch = 12;
  c.validate_every = 3;
  c.validation_sequences = 4;
  return c;
}

void expect_every(testing::Strength strength) {
  SmallRun runs;
  const auto expected = testing::expect_every<7>(strength, runs, {{3, 4, 4, 2, 3, 2, 3}, layout_of, config_of, {6}});
  std::set<std::string> different;
  for (const auto& [of, bits] : expected) different.insert(bits);
  EXPECT_EQ(different.size(), expected.size());
  EXPECT_GE(different.size(), testing::by_day_or_night(5u, 6u));  // models and dtypes
}

TEST(SameBitsBert, EveryPair) { expect_every(testing::Strength::pairs); }
TEST(SameBitsBert, DISABLED_EveryTriple) { expect_every(testing::Strength::triples); }

}  // namespace
}  // namespace trainyard

// Promise 2 for what BERT has, norms behind branches, exact GELU, a norm of the embeddings, segments and the masked
// head: every triple of choices among tensor ranks, stages and their schedule, ZeRO stages, data ranks, recomputation,
// dtypes and models has the bits of one rank.
#include "tests/engine/covering.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

namespace trainyard {
namespace {

using testing::Cut;
using testing::SmallRun;

// tensor ranks and shared rows, stages and their schedule, ZeRO stage, data ranks, recomputation, dtype, model
constexpr std::array<int, 7> levels = {3, 4, 4, 2, 3, 2, 3};
using Choice = testing::Choice<levels.size()>;

Cut cut_of(const Choice& c) {
  Cut cut;
  cut.tensor = c[0] == 0 ? 1 : 2, cut.sequence_parallel = c[0] == 2;
  cut.pipeline = c[1] == 0 ? 1 : 2;
  if (c[1] == 2) cut.schedule = "interleaved", cut.virtual_stages = 2;
  if (c[1] == 3) cut.schedule = "zero-bubble";
  cut.zero = c[2];
  cut.ranks = (c[3] + 1) * cut.tensor * cut.pipeline;
  // Weight gradients that are made apart do not go with recomputation.
  cut.recompute = c[1] == 3 ? "none" : plan::name_of(plan::recomputations[static_cast<std::size_t>(c[4])]);
  cut.dtype = c[5] == 0 ? "f32" : "bf16";
  return cut;
}

// Norms behind branches with a tied head and with a head of its own, and all of BERT.
engine::RunConfig config_of(SmallRun& runs, int model, const std::string& output) {
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

TEST(SameBitsBert, EveryTriple) {
  SmallRun runs;
  std::map<std::pair<int, int>, std::string> expected;  // by what is part of the numerics
  int n = 0;
  for (const auto& choice : testing::covering_choices(levels)) {
    const auto cut = cut_of(choice);
    const int model = choice[6];
    auto& want = expected[{choice[5], model}];
    if (want.empty()) {
      auto c = config_of(runs, model, fmt::format("one-{}", n));
      want = runs.bits(c, runs.run(c, {1, 0, 1, cut.dtype}));
      testing::expect_no_difference(runs.reports(), "one rank");
    }
    auto c = config_of(runs, model, fmt::format("cut-{}", n));
    const auto text = fmt::format("{} ranks, tensor {}{}, {} stages by {}, ZeRO {}, recompute {}, {}, model {}",
                                  cut.ranks, cut.tensor, cut.sequence_parallel ? " with rows" : "", cut.pipeline,
                                  cut.schedule, cut.zero, cut.recompute, cut.dtype, model);
    EXPECT_EQ(runs.bits(c, runs.run(c, cut)), want) << text;
    testing::expect_no_difference(runs.reports(), text);
    std::filesystem::remove_all(c.output);
    ++n;
  }
  std::set<std::string> different;
  for (const auto& [of, bits] : expected) different.insert(bits);
  EXPECT_EQ(different.size(), 6u);
}

}  // namespace
}  // namespace trainyard

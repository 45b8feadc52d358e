// Promise 2 for attention with blocks: every triple of choices among tensor ranks, stages, ZeRO stages, data ranks,
// threads, recomputation and layouts has the bits of one rank.
#include "tests/engine/covering.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

namespace trainyard {
namespace {

using testing::Cut;
using testing::SmallRun;

// tensor ranks and shared rows, stages and their schedule, ZeRO stage, data ranks, threads, recomputation, layouts
constexpr std::array<int, 7> levels = {3, 3, 4, 2, 2, 3, 3};
using Choice = testing::Choice<levels.size()>;

Cut cut_of(const Choice& c) {
  Cut cut;
  cut.tensor = c[0] == 0 ? 1 : 2, cut.sequence_parallel = c[0] == 2;
  cut.pipeline = c[1] == 0 ? 1 : 2;
  if (c[1] == 2) cut.schedule = "interleaved", cut.virtual_stages = 2;
  cut.zero = c[2];
  cut.ranks = (c[3] + 1) * cut.tensor * cut.pipeline;
  cut.threads = 1 + c[4];
  cut.recompute = plan::name_of(plan::recomputations[static_cast<std::size_t>(c[5])]);
  return cut;
}

engine::RunConfig config_of(SmallRun& runs, int layouts, const std::string& output) {
  auto c = runs.config(output);
  const std::string drawn = "layout = \"bigbird\"\nblock = 16\nwindow = 1\nrandom = 1\nper-head = \"on\"\nseed = 3\n";
  const std::string windows = "layout = \"dense, sliding x2\"\nblock = 16\nwindow = 2\n";
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

TEST(SameBitsSparse, EveryTriple) {
  SmallRun runs;
  std::map<int, std::string> expected;
  int n = 0;
  for (const auto& choice : testing::covering_choices(levels)) {
    const auto cut = cut_of(choice);
    auto& want = expected[choice[6]];
    if (want.empty()) {
      auto c = config_of(runs, choice[6], fmt::format("one-{}", n));
      want = runs.bits(c, runs.run(c, {1, 0, 1, "f32"}));
      testing::expect_no_difference(runs.reports(), "one rank");
    }
    auto c = config_of(runs, choice[6], fmt::format("cut-{}", n));
    const auto text = fmt::format("{} ranks of {} threads, tensor {}, stages {}, ZeRO {}, recompute {}, layouts {}",
                                  cut.ranks, cut.threads, cut.tensor, cut.pipeline, cut.zero, cut.recompute, choice[6]);
    EXPECT_EQ(runs.bits(c, runs.run(c, cut)), want) << text;
    testing::expect_no_difference(runs.reports(), text);
    std::filesystem::remove_all(c.output);
    ++n;
  }
  EXPECT_EQ(expected.size(), 3u);
  EXPECT_NE(expected[0], expected[1]);
}

}  // namespace
}  // namespace trainyard

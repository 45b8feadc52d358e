// Runs with --optimizer muon: the same bits on every layout and after a resume, memory and traffic as planned, and what
// is refused.
#include "libtrain/engine/config.h"
#include "libtrain/engine/setup.h"
#include "tests/engine/optimizer_runs.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace muon_test {

using testing::expect_no_difference;
using testing::ParallelLayout;
using testing::SmallRun;

engine::RunConfig muon(const SmallRun& runs, const std::string& output) {
  auto c = runs.config("muon-" + output);
  c.optimizer = "muon", c.momentum = 0.95, c.nesterov = true, c.weight_decay = 0.05, c.warmup_steps = 3, c.steps = 8;
  return c;
}

TEST(Muon, HasTheSameBitsOnEveryLayout) { testing::expect_same_bits_on_every_layout(muon, {"m", "v"}); }

// Each expert's matrix is one of its own.
TEST(Muon, HasTheSameBitsWithExperts) { testing::expect_same_bits_with_experts(muon); }

// A sequence so short that the update's scratch is larger than that of the passes.
TEST(Muon, TakesAndSendsWhatThePlanSays) {
  SmallRun runs;
  const auto wide = runs.model("wide", "layers = 2\nhidden = 128\nheads = 4\nkv-heads = 4\nffn = 512\ncontext = 32\n");
  for (const auto& layout : {ParallelLayout{1, 0, 1}, ParallelLayout{2, 0, 1}, ParallelLayout{3, 1, 1},
                             ParallelLayout{3, 3, 1}, ParallelLayout{2, 1, 1, "bf16", "none", 2},
                             ParallelLayout{4, 2, 1, "f32", "none", 2}, ParallelLayout{4, 3, 2, "f32", "none", 2}}) {
    auto c = muon(runs, "accounting-" + short_text_of(layout));
    c.model = wide, c.sequence = 4, c.steps = 3;
    auto adamw = c;
    adamw.optimizer = "adamw";
    const auto workspace = [&](const engine::RunConfig& of) {
      return engine::make_setup(of, 1, 1).plan.memory.categories[base::MemoryCategory::workspace];
    };
    EXPECT_GT(workspace(c), workspace(adamw));
    EXPECT_EQ(runs.run(c, layout).code, base::ExitCode::done);
    expect_no_difference(runs.reports(), c.output);
  }
}

TEST(Muon, ResumesToTheSameBitsOnAnotherLayout) { testing::expect_same_bits_after_resumes(muon); }

TEST(Muon, HasItsSettingsInTheIdentity) {
  SmallRun runs;
  const auto identity = engine::make_setup(muon(runs, "identity"), 1, 1).identity;
  EXPECT_EQ(identity["optimizer"], "muon");
  EXPECT_EQ(identity["momentum"], 0.95);
  EXPECT_EQ(identity["nesterov"], "on");
  for (const char* name : {"beta1", "beta2", "epsilon", "weight_decay"}) EXPECT_TRUE(identity.contains(name)) << name;
}

// The states have the names of AdamW's, and mean something else.
TEST(Muon, CannotGoOnFromTheStatesOfAdamW) {
  SmallRun runs;
  auto c = runs.config("muon-begun");
  c.steps = 4;
  const auto checkpoint = runs.run(c, {1, 0, 1}).checkpoint;
  c.optimizer = "muon";
  try {
    runs.run(c, {1, 0, 1});
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("holds the states of adamw (m, v), this run has --optimizer muon (m, v)"),
              std::string::npos)
        << e.what();
  }
  c.output += "-anew", c.init_from = checkpoint;
  const auto anew = runs.run(c, {2, 1, 1});
  EXPECT_EQ(anew.code, base::ExitCode::done);
  EXPECT_EQ(checkpoint::read_state(anew.checkpoint).optimizer.name, "muon");
}

}  // namespace muon_test
}  // namespace trainyard

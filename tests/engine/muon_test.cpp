// Runs with --optimizer muon: the same bits on every layout and after a resume, memory and traffic as planned, and what
// is refused.
#include "libtrain/checkpoint/reshard.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/setup.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

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

std::string experts(const SmallRun& runs) {
  return runs.model("experts",
                    "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n"
                    "[experts]\ncount = 4\ntop-k = 2\nresidual = true\n");
}

std::string text_of(const ParallelLayout& l) {
  return fmt::format("{}-{}-zero{}-t{}-p{}-e{}-a{}", l.dtype, l.ranks, l.zero, l.tensor, l.pipeline, l.experts,
                     l.threads);
}

TEST(Muon, HasTheSameBitsOnEveryLayout) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"}) {
    const auto alone = muon(runs, std::string("alone-") + dtype);
    const auto expected = runs.bits(alone, runs.run(alone, {1, 0, 1, dtype}));
    for (const char* state : {"m", "v"})
      EXPECT_NE(expected.find(fmt::format("/optimizer/{}/layers.00.attention.q.weight", state)), std::string::npos);
    for (const auto& layout :
         {ParallelLayout{1, 2, 2, dtype}, ParallelLayout{2, 0, 1, dtype}, ParallelLayout{2, 1, 2, dtype},
          ParallelLayout{3, 0, 1, dtype}, ParallelLayout{3, 2, 1, dtype}, ParallelLayout{2, 3, 1, dtype, "full"},
          ParallelLayout{2, 0, 1, dtype, "none", 2}, ParallelLayout{4, 3, 1, dtype, "none", 2},
          ParallelLayout{4, 1, 1, dtype, "none", 4}, ParallelLayout{2, 0, 1, dtype, "none", 1, false, 2},
          ParallelLayout{4, 1, 1, dtype, "none", 2, false, 2}}) {
      auto c = muon(runs, text_of(layout));
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
      expect_no_difference(runs.reports(), c.output);
    }
  }
}

// Each expert's matrix is one of its own.
TEST(Muon, HasTheSameBitsWithExperts) {
  SmallRun runs;
  auto alone = muon(runs, "experts");
  alone.model = experts(runs), alone.global_batch = 8, alone.steps = 6;
  const auto expected = runs.bits(alone, runs.run(alone, {1, 0, 1}));
  for (auto layout : {ParallelLayout{2, 1, 1}, ParallelLayout{2, 2, 1, "f32", "none", 2}, ParallelLayout{4, 3, 1},
                      ParallelLayout{4, 0, 1}, ParallelLayout{4, 1, 1, "f32", "none", 2}}) {
    for (const int expert_parallel : {1, 2}) {
      if (layout.ranks / layout.tensor % expert_parallel != 0) continue;
      layout.experts = expert_parallel;
      auto c = muon(runs, "experts-" + text_of(layout));
      c.model = alone.model, c.global_batch = alone.global_batch, c.steps = alone.steps;
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
      expect_no_difference(runs.reports(), c.output);
    }
  }
}

// A sequence so short that the update's scratch is larger than that of the passes.
TEST(Muon, TakesAndSendsWhatThePlanSays) {
  SmallRun runs;
  const auto wide = runs.model("wide", "layers = 2\nhidden = 128\nheads = 4\nkv-heads = 4\nffn = 512\ncontext = 32\n");
  for (const auto& layout : {ParallelLayout{1, 0, 1}, ParallelLayout{2, 0, 1}, ParallelLayout{3, 1, 1},
                             ParallelLayout{3, 3, 1}, ParallelLayout{2, 1, 1, "bf16", "none", 2},
                             ParallelLayout{4, 2, 1, "f32", "none", 2}, ParallelLayout{4, 3, 2, "f32", "none", 2}}) {
    auto c = muon(runs, "accounting-" + text_of(layout));
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

// The checkpoint is also resharded on the way.
TEST(Muon, ResumesToTheSameBitsOnAnotherLayout) {
  SmallRun runs;
  const auto whole = muon(runs, "whole");
  const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1}));
  auto c = muon(runs, "stopped");
  c.stop_after = 3;
  runs.run(c, {3, 0, 1});
  c.stop_after = 6;
  const auto from = runs.run(c, {4, 3, 1, "f32", "none", 2}).checkpoint;
  const auto next = (runs.folder() / "muon-resharded").string();
  checkpoint::ReshardOptions options;
  options.history = engine::history_through(from, 6);
  checkpoint::reshard(checkpoint::Reader(from), next, {2, {}, 1, {}, {}, 2}, options);
  c.stop_after = 0, c.resume = next;
  EXPECT_EQ(runs.bits(c, runs.run(c, {4, 1, 1, "f32", "none", 2})), expected);
}

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

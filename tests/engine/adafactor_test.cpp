// Runs with --optimizer adafactor: the same bits on every layout and after a resume, memory and traffic as planned,
// and what is refused.
#include "libtrain/checkpoint/reshard.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/setup.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace adafactor_test {

using testing::expect_no_difference;
using testing::ParallelLayout;
using testing::SmallRun;

engine::RunConfig adafactor(const SmallRun& runs, const std::string& output) {
  auto c = runs.config("adafactor-" + output);
  c.optimizer = "adafactor", c.learning_rate = 0.01, c.weight_decay = 0.05, c.warmup_steps = 3, c.steps = 8;
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

TEST(Adafactor, HasTheSameBitsOnEveryLayout) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"}) {
    const auto alone = adafactor(runs, std::string("alone-") + dtype);
    const auto expected = runs.bits(alone, runs.run(alone, {1, 0, 1, dtype}));
    for (const char* state : {"row_var", "column_var"})
      EXPECT_NE(expected.find(fmt::format("/optimizer/{}/layers.00.attention.q.weight", state)), std::string::npos);
    for (const auto& layout :
         {ParallelLayout{1, 2, 2, dtype}, ParallelLayout{2, 0, 1, dtype}, ParallelLayout{2, 1, 2, dtype},
          ParallelLayout{3, 0, 1, dtype}, ParallelLayout{3, 2, 1, dtype}, ParallelLayout{2, 3, 1, dtype, "full"},
          ParallelLayout{2, 0, 1, dtype, "none", 2}, ParallelLayout{4, 3, 1, dtype, "none", 2},
          ParallelLayout{4, 1, 1, dtype, "none", 4}, ParallelLayout{2, 0, 1, dtype, "none", 1, false, 2},
          ParallelLayout{4, 1, 1, dtype, "none", 2, false, 2}}) {
      auto c = adafactor(runs, text_of(layout));
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
      expect_no_difference(runs.reports(), c.output);
    }
  }
}

// Each expert's matrix has rows and columns of its own.
TEST(Adafactor, HasTheSameBitsWithExperts) {
  SmallRun runs;
  auto alone = adafactor(runs, "experts");
  alone.model = experts(runs), alone.global_batch = 8, alone.steps = 6;
  const auto expected = runs.bits(alone, runs.run(alone, {1, 0, 1}));
  for (auto layout : {ParallelLayout{2, 1, 1}, ParallelLayout{2, 2, 1, "f32", "none", 2}, ParallelLayout{4, 3, 1},
                      ParallelLayout{4, 0, 1}, ParallelLayout{4, 1, 1, "f32", "none", 2}}) {
    for (const int expert_parallel : {1, 2}) {
      if (layout.ranks / layout.tensor % expert_parallel != 0) continue;
      layout.experts = expert_parallel;
      auto c = adafactor(runs, "experts-" + text_of(layout));
      c.model = alone.model, c.global_batch = alone.global_batch, c.steps = alone.steps;
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
      expect_no_difference(runs.reports(), c.output);
    }
  }
}

// Memory, traffic and snapshots are compared in every run above. The states are so small that the plan has less than a
// tenth of AdamW's optimizer, where the model is not as tiny as these.
TEST(Adafactor, TakesLittleMemory) {
  SmallRun runs;
  auto c = adafactor(runs, "memory");
  c.model = runs.model("wide", "layers = 2\nhidden = 512\nheads = 4\nkv-heads = 4\nffn = 2048\ncontext = 32\n");
  const auto optimizer = [](const engine::RunConfig& of) {
    return engine::make_setup(of, 1, 1).plan.memory.categories[base::MemoryCategory::optimizer];
  };
  auto adamw = c;
  adamw.optimizer = "adamw";
  EXPECT_LT(optimizer(c), optimizer(adamw) / 10);
}

// The checkpoint is also resharded on the way.
TEST(Adafactor, ResumesToTheSameBitsOnAnotherLayout) {
  SmallRun runs;
  const auto whole = adafactor(runs, "whole");
  const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1}));
  auto c = adafactor(runs, "stopped");
  c.stop_after = 3;
  runs.run(c, {3, 0, 1});
  c.stop_after = 6;
  const auto from = runs.run(c, {4, 3, 1, "f32", "none", 2}).checkpoint;
  const auto next = (runs.folder() / "adafactor-resharded").string();
  checkpoint::ReshardOptions options;
  options.history = engine::history_through(from, 6);
  checkpoint::reshard(checkpoint::Reader(from), next, {2, {}, 1, {}, {}, 2}, options);
  c.stop_after = 0, c.resume = next;
  EXPECT_EQ(runs.bits(c, runs.run(c, {4, 1, 1, "f32", "none", 2})), expected);
}

TEST(Adafactor, HasItsSettingsInTheIdentity) {
  SmallRun runs;
  const auto identity = engine::make_setup(adafactor(runs, "identity"), 1, 1).identity;
  EXPECT_EQ(identity["optimizer"], "adafactor");
  EXPECT_EQ(identity["beta2_decay"], 0.8);
  EXPECT_EQ(identity["scale_parameter"], "on");
  EXPECT_TRUE(identity.contains("weight_decay"));
  for (const char* name : {"beta1", "beta2", "epsilon", "momentum"}) EXPECT_FALSE(identity.contains(name)) << name;
}

TEST(Adafactor, CannotGoOnFromTheStatesOfAdamW) {
  SmallRun runs;
  auto c = runs.config("adafactor-begun");
  c.steps = 4;
  const auto checkpoint = runs.run(c, {1, 0, 1}).checkpoint;
  c.optimizer = "adafactor";
  try {
    runs.run(c, {1, 0, 1});
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find(
                  "holds the states of adamw (m, v), this run has --optimizer adafactor (row_var, column_var)"),
              std::string::npos)
        << e.what();
  }
  c.output += "-anew", c.init_from = checkpoint;
  const auto anew = runs.run(c, {2, 1, 1});
  EXPECT_EQ(anew.code, base::ExitCode::done);
  EXPECT_EQ(checkpoint::read_state(anew.checkpoint).optimizer.name, "adafactor");
}

TEST(Adafactor, HasNoStatesInBf16) {
  SmallRun runs;
  auto c = adafactor(runs, "narrow");
  c.moment_dtype = base::DType::bf16;
  try {
    engine::make_setup(c, 1, 1);
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("--optimizer adafactor keeps its states in f32"), std::string::npos)
        << e.what();
  }
}

}  // namespace adafactor_test
}  // namespace trainyard

// Runs with --optimizer adafactor: the same bits on every layout and after a resume, memory and traffic as planned,
// and what is refused.
#include "libtrain/engine/config.h"
#include "libtrain/engine/setup.h"
#include "tests/engine/optimizer_runs.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace adafactor_test {

using testing::SmallRun;

engine::RunConfig adafactor(const SmallRun& runs, const std::string& output) {
  auto c = runs.config("adafactor-" + output);
  c.optimizer = "adafactor", c.learning_rate = 0.01, c.weight_decay = 0.05, c.warmup_steps = 3, c.steps = 8;
  return c;
}

TEST(Adafactor, HasTheSameBitsOnEveryLayout) {
  testing::expect_same_bits_on_every_layout(adafactor, {"row_var", "column_var"});
}

// Each expert's matrix has rows and columns of its own.
TEST(Adafactor, HasTheSameBitsWithExperts) { testing::expect_same_bits_with_experts(adafactor); }

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

TEST(Adafactor, ResumesToTheSameBitsOnAnotherLayout) { testing::expect_same_bits_after_resumes(adafactor); }

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

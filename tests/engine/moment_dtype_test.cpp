// Runs whose optimizer keeps its states in bf16: same bits on every layout, a resume from f32 and back, and refusals.
// What a resume says of sums of gradients in bf16.
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/setup.h"
#include "tests/checkpoint/sample.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace moment_dtype_test {

using testing::ParallelLayout;
using testing::SmallRun;

engine::RunConfig narrow_run(const SmallRun& runs, const std::string& optimizer, const std::string& output) {
  auto c = runs.config("moments-" + optimizer + "-" + output);
  c.optimizer = optimizer, c.moment_dtype = base::DType::bf16, c.weight_decay = 0.05, c.warmup_steps = 3;
  return c;
}

// By day each layout has one of the two dtypes.
TEST(MomentDtype, HasTheSameBitsOnEveryLayout) {
  SmallRun runs;
  bool turn = false;
  for (const char* optimizer : {"adamw", "lamb", "sgd", "muon"})
    for (const char* dtype : {"f32", "bf16"}) {
      auto alone = narrow_run(runs, optimizer, std::string("alone-") + dtype);
      alone.steps = testing::by_day_or_night(6, 20);
      const auto result = runs.run(alone, {1, 0, 1, dtype});
      const auto expected = runs.bits(alone, result);
      auto wide = alone;
      wide.output += "-f32", wide.moment_dtype = base::DType::f32;
      EXPECT_NE(runs.bits(wide, runs.run(wide, {1, 0, 1, dtype})), expected) << "no state was rounded";
      for (const auto& t : checkpoint::Reader(result.checkpoint).tensors())
        if (t.kind.is_state()) {
          EXPECT_EQ(t.dtype, base::DType::bf16) << t.path;
        }
      for (const auto& layout :
           {ParallelLayout{2, 1, 2, dtype}, ParallelLayout{3, 2, 1, dtype}, ParallelLayout{4, 3, 1, dtype, "none", 2},
            ParallelLayout{2, 0, 1, dtype, "none", 1, false, 2}}) {
        turn = !turn;
        if (!testing::at_night() && turn == (dtype == std::string("f32"))) continue;
        auto c =
            narrow_run(runs, optimizer, fmt::format("{}-{}-{}-{}", dtype, layout.ranks, layout.zero, layout.pipeline));
        c.steps = alone.steps;
        EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
        for (const auto& report : runs.reports()) EXPECT_EQ(report.find("differs"), std::string::npos) << report;
      }
    }
}

// A resume rounds the states of an f32 run, and goes on in f32 from rounded ones. Without a change it is the same run.
TEST(MomentDtype, MayChangeAtAResume) {
  SmallRun runs;
  for (const char* optimizer : {"adamw", "lamb"}) {
    const auto whole = narrow_run(runs, optimizer, "whole");
    const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1}));
    auto c = narrow_run(runs, optimizer, "stopped");
    c.stop_after = 7;
    runs.run(c, {3, 2, 1});
    c.stop_after = 0;
    EXPECT_EQ(runs.bits(c, runs.run(c, {2, 3, 1})), expected) << optimizer;
  }

  auto changed = narrow_run(runs, "adamw", "changed");
  changed.moment_dtype = base::DType::f32, changed.stop_after = 7;
  runs.run(changed, {1, 0, 1});
  changed.moment_dtype = base::DType::bf16, changed.stop_after = 13;
  const auto narrow = runs.run(changed, {2, 1, 1}).checkpoint;
  EXPECT_EQ(checkpoint::Reader(narrow).state().optimizer.dtype, base::DType::bf16);
  changed.moment_dtype = base::DType::f32, changed.stop_after = 0;
  const auto last = runs.run(changed, {1, 0, 1});
  EXPECT_EQ(last.code, base::ExitCode::done);
  EXPECT_EQ(checkpoint::Reader(last.checkpoint).state().optimizer, checkpoint::StoredOptimizer());
}

// A resume may change it, as it changes the dtype of moments, and no bit of a checkpoint shows which it was.
TEST(GradientSums, AreToldOfWhereAResumeChangesThem) {
  SmallRun runs;
  const auto c = runs.config("sums");
  auto setup = engine::make_setup(c, 1, 1);
  const auto said = [&](const char* was, base::DType now) {
    auto s = sample::state(setup.plan.model, base::DType::f32, 15);
    s.identity = setup.identity, s.seed = c.seed;
    if (was != nullptr) s.plan["gradient_sums"] = was;
    std::filesystem::remove_all(c.output);
    sample::save(engine::checkpoints_folder(c.output), s, 1);
    setup.config.gradient_sums = now;
    ::testing::internal::CaptureStderr();
    engine::choose_start(setup, {});
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(said(nullptr, base::DType::bf16).find("gradient-sums bf16 (the checkpoint was written with f32)"),
            std::string::npos);
  EXPECT_NE(said("bf16", base::DType::f32).find("gradient-sums f32 (the checkpoint was written with bf16)"),
            std::string::npos);
  EXPECT_EQ(said("bf16", base::DType::bf16).find("gradient-sums"), std::string::npos);
  EXPECT_EQ(said(nullptr, base::DType::f32).find("gradient-sums"), std::string::npos);
}

// Above 1 - 2^-8 an average in bf16 would not fall.
TEST(MomentDtype, RefusesAveragesThatCouldNotFall) {
  SmallRun runs;
  const auto refusal = [&](const char* optimizer, double beta2, double momentum) {
    auto c = narrow_run(runs, optimizer, "refused");
    c.beta2 = beta2, c.momentum = momentum;
    try {
      engine::make_setup(c, 1, 1);
      return std::string();
    } catch (const base::UsageError& e) {
      return e.what() + std::string(" | ") + e.hint();
    }
  };
  EXPECT_EQ(refusal("adamw", 0.996, 0.999), "");
  EXPECT_EQ(refusal("sgd", 0.999, 0.9), "");
  EXPECT_EQ(refusal("adamw", 0.999, 0.9),
            "--beta2 0.999 is too near 1 for --moment-dtype bf16: an average in bf16 could not fall | at most --beta2 "
            "0.99609375, or --moment-dtype f32");
  EXPECT_NE(refusal("sgd", 0.9, 0.999).find("--momentum 0.999"), std::string::npos);
  // The halves of the rule: 255/256 falls from every number, and 0.999 stays where it is.
  const auto falls = [](double decay) {
    for (float x = 1; x < 2; x += 0x1p-7f)
      if (static_cast<float>(base::bf16(static_cast<float>(decay) * x)) >= x) return false;
    return true;
  };
  EXPECT_TRUE(falls(plan::most_decay_of_bf16_states));
  EXPECT_FALSE(falls(0.999));
}

}  // namespace moment_dtype_test
}  // namespace trainyard

// --offload auto: a run takes the least that fits its limit, says so, and has the bits of a run in memory.
#include "libtrain/engine/auto_offload.h"

#include "libtrain/base/error.h"
#include "libtrain/engine/auto_plan.h"
#include "libtrain/engine/setup.h"
#include "libtrain/plan/offload_choice.h"
#include "tests/engine/small_run.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace auto_offload_test {

class AutoOffload : public ::testing::Test {
 protected:
  // Layers of 100 kB of weights, so that what lies on disk is more than the buffers on the way there.
  engine::RunConfig config(const std::string& output) const {
    auto c = runs.config(output);
    c.model =
        runs.model("auto-offload", "layers = 24\nhidden = 48\nheads = 4\nkv-heads = 4\nffn = 192\ncontext = 16\n");
    c.steps = 3, c.zero = 3, c.global_batch = 4, c.micro_batch = 1;
    c.validate_every = 0, c.validation_sequences = 0;
    c.offload_dir = runs.folder().string();
    return c;
  }
  // The memory of a rank with the offload, from a whole setup of 2 ranks.
  static std::int64_t need(engine::RunConfig c, const char* offload) {
    c.accumulation_order = plan::AccumulationOrder::depth;  // as SmallRun has it
    c.memory_limit.clear(), c.offload_auto = false, c.offload = plan::offload_of_text(offload, "test");
    return engine::make_setup(c, 2, 1).plan.memory.total();
  }
  testing::SmallRun runs;
};

TEST_F(AutoOffload, TakesWhatHasToBeAndSaysSo) {
  auto c = config("memory");
  const auto expected = runs.bits(c, runs.run(c, {2, 3, 1, "f32"}));
  for (const char* offload : {"none", "optimizer=disk:0.5", "optimizer=disk", "optimizer=disk,parameters=disk:0.6"}) {
    auto on_disk = config(std::string("auto-") + offload);
    on_disk.offload_auto = true;
    on_disk.memory_limit = fmt::format("{}", need(on_disk, offload));
    std::vector<std::string> notes;
    const engine::RunListener listener{{}, [&](const std::string& line) { notes.push_back(line); }};
    EXPECT_EQ(runs.bits(on_disk, runs.run(on_disk, {2, 3, 1, "f32"}, listener)), expected) << offload;
    ASSERT_FALSE(notes.empty());
    EXPECT_TRUE(notes[0].starts_with(fmt::format("--offload auto: {} on 2 ranks: ", offload))) << notes[0];
    const auto report = testing::slurp(on_disk.output + "/report.txt");
    EXPECT_NE(report.find("\n" + notes[0] + "\n"), std::string::npos) << report;
  }
}

TEST_F(AutoOffload, FollowsThePlanThatIsChosen) {
  auto c = config("both");
  c.plan = engine::auto_plan, c.from_plan.open.zero = c.from_plan.open.recompute = true;
  c.offload_auto = true;
  auto least = config("both");
  least.recompute = plan::recomputation_of_text("full:0.958,selective", "test");
  // Less than any ZeRO stage with recomputation leaves.
  const auto bytes = need(least, "optimizer=disk");
  ASSERT_LT(bytes, need(least, "none"));
  c.memory_limit = fmt::format("{}", bytes);
  std::vector<std::string> notes;
  const engine::RunListener listener{{}, [&](const std::string& line) { notes.push_back(line); }};
  runs.run(c, {2, 3, 1, "f32"}, listener);
  ASSERT_GE(notes.size(), 2u);
  EXPECT_TRUE(notes[0].starts_with("--plan auto: ZeRO 3, recompute full:0.958,selective on 2 ranks: ")) << notes[0];
  EXPECT_TRUE(notes[1].starts_with("--offload auto: optimizer=disk on 2 ranks: ")) << notes[1];
}

// On one rank ZeRO 3 alone saves nothing, but with it weights may lie elsewhere.
TEST_F(AutoOffload, TakesZero3WhereOnlyThenEnoughLiesElsewhere) {
  auto plan = engine::make_setup(config("stage"), 1, 1).plan;
  plan.zero = 0;
  const auto with = [&](int zero, const char* offload) {
    auto other = plan;
    other.zero = zero;
    return plan::memory_with(other, plan::offload_of_text(offload, "test"));
  };
  const auto most = with(0, "optimizer=disk"), least = with(3, "optimizer=disk,parameters=disk,gradients=disk");
  ASSERT_LT(least, most);
  EXPECT_EQ(engine::stage_for_offload(plan, fmt::format("{}", most), {}), 0);
  EXPECT_EQ(engine::stage_for_offload(plan, fmt::format("{}", least), {}), 3);
  EXPECT_EQ(engine::stage_for_offload(plan, fmt::format("{}", least - (1 << 20)), {}), 0) << "nothing fits";
  EXPECT_EQ(engine::stage_for_offload(plan, "", {}), 0) << "no limit is known";
}

TEST_F(AutoOffload, WhatFitsNowhereIsRefused) {
  auto c = config("refused");
  c.offload_auto = true, c.memory_limit = "1MB";
  try {
    runs.run(c, {2, 3, 1, "f32"});
    FAIL() << "a rank of 1 MB";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::input_refused) << e.what();
    EXPECT_NE(std::string(e.what()).find("--memory-limit"), std::string::npos) << e.what();
  }
  c.memory_limit = fmt::format("{}", need(c, "optimizer=disk")), c.offload_dir = "";
  try {
    runs.run(c, {2, 3, 1, "f32"});
    FAIL() << "no folder";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    EXPECT_EQ(std::string(e.what()), "--offload auto takes optimizer=disk, and there is no folder for it");
  }
  const auto plan = engine::make_setup(config("machine"), 2, 1).plan;
  EXPECT_THROW(engine::auto_offload(plan, "", 1000), base::EnvironmentError) << "the machine is too small";
  EXPECT_EQ(engine::auto_offload(plan, "", {}).first, "none");
  EXPECT_EQ(engine::auto_offload(plan, "", std::int64_t{1} << 40).first, "none");
  EXPECT_EQ(
      engine::auto_offload(plan, fmt::format("{}", need(config("machine"), "optimizer=disk")), std::int64_t{1} << 40)
          .first,
      "optimizer=disk");
}

}  // namespace auto_offload_test
}  // namespace trainyard

// Tests what a run refuses of the program that calls it, and the result of a run that has nothing left to do.
#include "libtrain/engine/memory.h"
#include "tests/engine/small_run.h"
#include "tests/spelling.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace {

using namespace trainyard;
using trainyard::testing::SmallRun;

engine::RunConfig tiny(const SmallRun& runs) {
  auto c = runs.config("tiny");
  c.model = runs.model("tiny", "layers = 1\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 16\nlanes = 2\n");
  c.steps = 2, c.global_batch = 2, c.threads = 1;
  return c;
}

TEST(Run, NeedsARankOnThisMachine) {
  SmallRun runs;
  const auto c = tiny(runs);
  auto world = engine::solo_world();
  const engine::SignalWatcher signals;
  for (const int ranks : {0, -1}) {
    EXPECT_THROW(engine::run(c, world, signals, {}, ranks), base::UsageError) << ranks;
    EXPECT_THROW(engine::dry_run(c, world, base::Sizes::rounded, ranks), base::UsageError) << ranks;
    EXPECT_THROW(engine::machine_shortage(1, ranks), std::logic_error) << ranks;
  }
}

// "--steps" is a word of the programs: another program reads the bare name, or what it spells itself.
TEST(Run, NamesSettingsAsItsProgramSpellsThem) {
  SmallRun runs;
  auto c = tiny(runs);
  c.warmup_steps = 9;
  auto world = engine::solo_world();
  const engine::SignalWatcher signals;
  const auto refusal = [&] {
    try {
      engine::run(c, world, signals, {}, 1);
    } catch (const base::Error& e) {
      return std::string(e.what()) + "; " + e.hint();
    }
    return std::string();
  };
  EXPECT_EQ(refusal(), "--warmup-steps 9 is more than --steps 2: give at most 2; --warmup-steps 0, or more --steps");
  c.warmup_steps = {static_cast<double>(9 * c.global_batch), base::Amount::Unit::samples};
  EXPECT_EQ(refusal(),
            fmt::format("--warmup-steps 9 is more than --steps 2: give at most 2; --warmup-steps {}samples is "
                        "9; --warmup-steps 0, or more --steps",
                        9 * c.global_batch));
  c.warmup_steps = 9;
  const trainyard::testing::Spelled bare(nullptr);
  EXPECT_EQ(refusal(), "warmup-steps 9 is more than steps 2: give at most 2; warmup-steps 0, or more steps");
  const trainyard::testing::Spelled spelled([](std::string_view name) { return "{" + std::string(name) + "}"; });
  EXPECT_EQ(refusal(), "{warmup-steps} 9 is more than {steps} 2: give at most 2; {warmup-steps} 0, or more {steps}");
}

// A world of data-parallel ranks lacks the tensor group that the settings need.
TEST(Run, RefusesAWorldWithoutTheGroupsOfItsLayout) {
  SmallRun runs;
  auto c = tiny(runs);
  c.tensor = 2;
  const engine::SignalWatcher signals;
  comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& threads) {
    auto data_parallel = engine::make_world("threads", rank, 2, threads.factory(rank));
    try {
      engine::run(c, data_parallel, signals, {}, 2);
      ADD_FAILURE() << "nothing was wrong";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::usage);
      const std::string text = e.what();
      EXPECT_NE(text.find("2 ranks along data (the plan needs 1), 1 rank along tensor (the plan needs 2)"),
                std::string::npos)
          << text;
      EXPECT_NE(e.hint().find("plan::topology_of(config, size)"), std::string::npos) << e.hint();
    }
    auto fitting = engine::make_world("threads", rank, plan::topology_of(c, 2), threads.factory(rank));
    EXPECT_EQ(engine::run(c, fitting, signals, {}, 2).step, 2);
  });
}

TEST(Run, HasALossOnlyOfAStepThatItHasDone) {
  SmallRun runs;
  const auto c = tiny(runs);
  const auto first = runs.run(c, {});
  ASSERT_TRUE(first.loss.has_value());
  EXPECT_GT(*first.loss, 1);
  const auto again = runs.run(c, {});
  EXPECT_EQ(again.step, 2);
  EXPECT_EQ(again.steps_done, 0);
  EXPECT_FALSE(again.loss.has_value());
}

}  // namespace

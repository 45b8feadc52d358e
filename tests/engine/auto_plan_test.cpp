// --plan auto takes the lowest ZeRO stage that fits and keeps what was set. Runs that go on with other ranks have the
// same bits.
#include "libtrain/engine/auto_plan.h"
#include "libtrain/engine/auto_search.h"

#include "libtrain/base/error.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/setup.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace trainyard {
namespace {

plan::Plan gpt2(int ranks) {
  plan::Plan p;
  p.model = plan::load_model("gpt2");
  p.model.vocabulary = 50257, p.model.lanes = 1;
  p.sequence = 256, p.micro_batch = 2, p.global_batch = 16 * ranks;
  p.topology = plan::Topology({{plan::Axis::data, ranks}});
  return p;
}

// The memory that a plan needs, from a whole prediction.
std::int64_t need(plan::Plan p, int zero, plan::Recompute recompute) {
  p.zero = zero, p.recompute = recompute;
  plan::predict(p);
  return p.memory.total();
}

TEST(AutoPlan, TakesTheLowestStageThatFits) {
  const auto p = gpt2(8);
  constexpr auto none = plan::Recompute::none, selective = plan::Recompute::selective, layers = plan::Recompute::layers;
  // For this model each further ZeRO stage and each further recomputation saves memory.
  for (int zero = 0; zero < 3; ++zero) ASSERT_GT(need(p, zero, none), need(p, zero + 1, none)) << zero;
  ASSERT_GT(need(p, 3, none), need(p, 3, selective));
  ASSERT_GT(need(p, 3, selective), need(p, 3, layers));
  for (int zero = 0; zero <= 3; ++zero) {
    const auto exactly = need(p, zero, none);
    EXPECT_EQ(engine::fitting_plan(p, {}, exactly).zero, zero);
    EXPECT_EQ(engine::fitting_plan(p, {}, exactly).recompute, none);
    const auto less = engine::fitting_plan(p, {}, exactly - 1);
    EXPECT_TRUE(zero == 3 ? less.recompute == plan::Recomputation(0, 0.083)
                          : less.zero == zero + 1 && less.recompute == none)
        << zero;
  }
  const auto exactly = need(p, 3, selective);
  EXPECT_EQ(engine::fitting_plan(p, {}, exactly).recompute, selective);
  // As few of the twelve layers as fit.
  EXPECT_EQ(plan::recomputation_text(engine::fitting_plan(p, {}, exactly - 1).recompute), "full:0.083,selective");
  EXPECT_EQ(engine::fitting_plan(p, {}, 0).zero, 0);
  const auto least = engine::fitting_plan(p, {}, 1);
  EXPECT_EQ(least.zero, 3);
  EXPECT_EQ(least.recompute.most(), layers);
}

TEST(AutoPlan, KeepsWhatWasSaid) {
  auto p = gpt2(8);
  p.zero = 2;
  EXPECT_EQ(engine::fitting_plan(p, {false, true}, 1).zero, 2);
  EXPECT_EQ(engine::fitting_plan(p, {false, true}, 1).recompute.most(), plan::Recompute::layers);
  EXPECT_EQ(engine::fitting_plan(p, {true, false}, 1).recompute, plan::Recompute::none);
  EXPECT_EQ(engine::fitting_plan(p, {false, false}, 0).zero, 2);
  p.recompute = plan::Recompute::selective;
  EXPECT_EQ(engine::fitting_plan(p, {true, true}, 0).recompute, plan::Recompute::selective);
  EXPECT_EQ(engine::fitting_plan(p, {true, false}, 1).recompute, plan::Recompute::selective);
  p.recompute = plan::Recompute::layers;
  EXPECT_EQ(engine::fitting_plan(p, {true, true}, 0).recompute, plan::Recompute::layers);
  EXPECT_EQ(engine::fitting_plan(p, {true, true}, 0).zero, 0);
}

TEST(AutoPlan, SharesAMachine) {
  EXPECT_EQ(engine::memory_for_a_rank(1000, 1), 900);
  EXPECT_EQ(engine::memory_for_a_rank(1000, 4), 225);
  EXPECT_EQ(engine::memory_for_a_rank(0, 4), 0);
}

class AutoPlanRun : public ::testing::Test {
 protected:
  engine::RunConfig config(const std::string& output) const {
    auto c = runs_.config(output);
    c.plan = engine::auto_plan;
    c.from_plan.open.zero = c.from_plan.open.recompute = true;
    return c;
  }
  static int stage_of(const engine::RunResult& r) {
    return checkpoint::Reader(r.checkpoint).state().plan.at("zero").get<int>();
  }
  testing::SmallRun runs_;
};

// A program that sets the name of a plan's file and does not read it: refused, not trained with other settings.
TEST_F(AutoPlanRun, APlanThatNobodyReadIsRefused) {
  auto c = runs_.config("unread");
  c.plan = "plan.json";
  try {
    runs_.run(c, {});
    FAIL();
  } catch (const base::UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("plan.json was not read into the settings"), std::string::npos) << e.what();
  }
}

TEST_F(AutoPlanRun, OtherRanksOtherStagesSameBits) {
  auto whole = runs_.config("whole");
  const auto expected = runs_.bits(whole, runs_.run(whole, {}));
  auto c = config("auto");
  std::vector<std::string> notes;
  const engine::RunListener listener{{}, [&](const std::string& line) { notes.push_back(line); }};
  c.stop_after = 6;
  auto r = runs_.run(c, {4}, listener);
  EXPECT_EQ(r.code, base::ExitCode::requeue);
  EXPECT_EQ(stage_of(r), 0);
  ASSERT_FALSE(notes.empty());
  EXPECT_TRUE(notes[0].starts_with("--plan auto: ZeRO 0 on 4 ranks: ")) << notes[0];
  // Three ranks that may have no more memory than ZeRO 2 needs, as on a smaller machine.
  auto setup_of = [&](int zero) {
    auto s = config("auto");
    s.zero = zero;
    return engine::make_setup(s, 3, 1).plan.memory.total();
  };
  ASSERT_GT(setup_of(1), setup_of(2));
  c.memory_limit = std::to_string(setup_of(2));
  c.stop_after = 13;
  r = runs_.run(c, {3}, listener);
  EXPECT_EQ(stage_of(r), 2);
  c.memory_limit.clear();
  c.stop_after = 0;
  r = runs_.run(c, {1}, listener);
  EXPECT_EQ(r.code, base::ExitCode::done);
  EXPECT_EQ(runs_.bits(c, r), expected);
}

// --recompute auto alone: as few layers as fit, the ZeRO stage that was set, and the same bits.
TEST_F(AutoPlanRun, RecomputesAsFewLayersAsFit) {
  auto whole = runs_.config("stored");
  whole.steps = 4, whole.micro_batch = 7, whole.threads = 1;
  const auto expected = runs_.bits(whole, runs_.run(whole, {}));
  const auto needed = [&](const char* recompute) {
    auto s = whole;
    s.recompute = plan::recomputation_of_text(recompute, "test");
    return engine::make_setup(s, 1, 1).plan.memory.total();
  };
  ASSERT_GT(needed("full:0.333,selective"), needed("full:0.666,selective"));
  auto c = whole;
  c.output += "-auto", c.recompute_auto = true;
  c.memory_limit = std::to_string(needed("full:0.666,selective"));
  std::vector<std::string> notes;
  const auto r = runs_.run(c, {}, {{}, [&](const std::string& line) { notes.push_back(line); }});
  EXPECT_EQ(runs_.bits(c, r), expected);
  EXPECT_EQ(checkpoint::Reader(r.checkpoint).state().plan.at("recompute"), "full:0.666,selective");
  ASSERT_FALSE(notes.empty());
  EXPECT_TRUE(notes[0].starts_with("--recompute auto: full:0.666,selective on 1 rank: ")) << notes[0];
}

// Activations elsewhere need layers that are recomputed in full, so at least one is.
TEST_F(AutoPlanRun, RecomputesForActivationsElsewhere) {
  auto c = runs_.config("elsewhere");
  c.steps = 1, c.recompute_auto = true, c.memory_limit = "10GB";
  c.offload = plan::offload_of_text("activations=disk", "test"), c.offload_dir = runs_.folder().string();
  const auto r = runs_.run(c, {});
  EXPECT_EQ(r.code, base::ExitCode::done);
  EXPECT_EQ(checkpoint::Reader(r.checkpoint).state().plan.at("recompute"), "full:0.333");
}

TEST_F(AutoPlanRun, RefusesWhatFitsNowhere) {
  auto c = config("nowhere");
  c.memory_limit = "1MB";
  try {
    runs_.run(c, {2});
    FAIL() << "started";
  } catch (const comm::AgreedError& e) {
    EXPECT_EQ(e.code(), base::ExitCode::input_refused);
    EXPECT_NE(std::string(e.what()).find("a rank needs"), std::string::npos) << e.what();
  }
  c.memory_limit.clear();
  ::setenv("SLURM_MEM_PER_NODE", "2", 1);
  try {
    runs_.run(c, {2});
    FAIL() << "started";
  } catch (const comm::AgreedError& e) {
    EXPECT_EQ(e.code(), base::ExitCode::environment);
    EXPECT_NE(std::string(e.what()).find("--plan auto: "), std::string::npos) << e.what();
  }
  ::unsetenv("SLURM_MEM_PER_NODE");
  EXPECT_FALSE(std::filesystem::exists(c.output));
}

// --plan auto with a machine: two ranks of threads search, take what was found, and train with it.
class SearchedRun : public AutoPlanRun {
 protected:
  std::string machine(double link) const {
    return runs_.model("machine-" + std::to_string(static_cast<int>(std::log10(link))),
                       fmt::format("devices-per-node = 2\ndevice = \"cpu\"\nflops-32bit = 1e10\nmemory-bandwidth = "
                                   "1e10\nlink-bandwidth = {}\nlink-latency = 0.0\n",
                                   link));
  }
  struct Found {
    engine::RunConfig config;
    std::string text;
  };
  // What each rank has after the search. `given`: settings of a flag.
  std::vector<Found> search(engine::RunConfig c, const std::vector<std::pair<std::string, std::string>>& given = {}) {
    std::vector<Found> out(2);
    comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& world) {
      auto w = engine::make_world("threads", rank, plan::replicas_of(2, 1), world.factory(rank));
      auto& mine = out[static_cast<std::size_t>(rank)];
      mine.config = c;
      auto fields = engine::fields_of(mine.config);
      for (const auto& [name, value] : given) {
        auto& field = base::field_named(fields, name, "a test");
        field.set(value, name), field.source = base::from_flag;
      }
      mine.text = engine::search_layout(fields, mine.config, w, 2);
    });
    return out;
  }
  engine::RunResult run_found(const Found& found) {
    const auto& c = found.config;
    testing::ParallelLayout layout{2, c.zero};
    layout.tensor = c.tensor, layout.sequence_parallel = c.sequence_parallel, layout.pipeline = c.pipeline;
    layout.virtual_stages = c.virtual_stages, layout.recompute = plan::recomputation_text(c.recompute);
    for (const auto& [name, schedule] : plan::schedule_names())
      if (schedule == c.pipeline_schedule) layout.schedule = name;
    return runs_.run(c, layout);
  }
};

TEST_F(SearchedRun, TheFastestLayoutTrainsTheSameBits) {
  auto whole = runs_.config("whole-of-search");
  whole.steps = 4, whole.lanes = 4, whole.micro_batch = 1, whole.global_batch = 8;
  whole.accumulation_order = plan::AccumulationOrder::depth;  // as SmallRun sets it
  const auto expected = runs_.bits(whole, runs_.run(whole, {}));
  std::set<std::string> layouts;
  for (const double link : {1e4, 1e12}) {
    auto c = whole;
    c.output = (runs_.folder() / ("searched" + std::to_string(link))).string();
    c.plan = engine::auto_plan, c.machine = machine(link);
    const auto found = search(c);
    const auto& first = found[0].config;
    EXPECT_TRUE(found[0].text.starts_with("--plan auto: ")) << found[0].text;
    EXPECT_EQ(found[1].config.tensor, first.tensor);
    EXPECT_EQ(found[1].config.pipeline, first.pipeline);
    EXPECT_EQ(found[1].config.zero, first.zero);
    EXPECT_EQ(first.micro_batch, 1);  // part of what the run is
    layouts.insert(fmt::format("{} {} {}", first.tensor, first.pipeline, first.zero));
    ASSERT_TRUE(first.from_plan.as_read.has_value());
    EXPECT_TRUE(first.from_plan.as_read->step.known());
    EXPECT_EQ(runs_.bits(c, run_found(found[0])), expected);
    for (const auto& step : runs_.metrics(c)) EXPECT_TRUE(step.contains("predicted_step_seconds"));
  }
  EXPECT_EQ(layouts.size(), 2u);  // slow links ask for another layout than fast ones
}

TEST_F(SearchedRun, KeepsWhatWasSaidAndSaysWhatIsWrong) {
  auto c = runs_.config("kept");
  c.lanes = 4, c.global_batch = 8, c.plan = engine::auto_plan, c.machine = machine(1e12);
  const auto kept = search(c, {{"zero", "3"}, {"pipeline-parallel", "1"}, {"tensor-parallel", "1"}});
  EXPECT_EQ(kept[1].config.zero, 3);
  EXPECT_EQ(kept[1].config.tensor, 1);
  EXPECT_EQ(kept[1].config.pipeline, 1);
  const auto refusal = [&](const engine::RunConfig& wrong) -> std::pair<base::ExitCode, std::string> {
    try {
      search(wrong);
    } catch (const base::Error& e) {
      return {e.code(), e.what()};
    }
    return {base::ExitCode::done, ""};
  };
  auto wrong = c;
  wrong.plan.clear();
  EXPECT_EQ(refusal(wrong).first, base::ExitCode::usage);
  wrong = c, wrong.memory_limit = "1MB";
  EXPECT_EQ(refusal(wrong).first, base::ExitCode::input_refused);
  wrong = c, wrong.machine = "dgx-a100-80";
  EXPECT_EQ(refusal(wrong).second, "--machine dgx-a100-80 has GPUs, and these ranks compute on the CPU");
  wrong = c, wrong.machine = "dgx-a100-81";
  EXPECT_EQ(refusal(wrong).first, base::ExitCode::usage);
}

}  // namespace
}  // namespace trainyard

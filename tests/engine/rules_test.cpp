// Learning rates computed by hand, identities, and metrics that a resume truncates.
#include "libtrain/base/error.h"
#include "libtrain/engine/config.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/learning_rate.h"
#include "libtrain/engine/metrics.h"
#include "tests/golden/learning_rate_golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace trainyard::engine {
namespace {

TEST(LearningRate, WarmupStartsAtItsFirstValue) {
  const LearningRate s{"cosine", 1.0, 0.1, 10, 0, 110};
  EXPECT_DOUBLE_EQ(s.at(0), 0.1);
  EXPECT_DOUBLE_EQ(s.at(9), 1.0);
  EXPECT_DOUBLE_EQ(s.at(59), 0.1 + 0.9 * 0.5);
  EXPECT_DOUBLE_EQ(s.at(109), 0.1);
  EXPECT_DOUBLE_EQ(s.at(1000), 0.1);  // clamped after the end
}

TEST(LearningRate, WhatMeansNothingIsRefused) {
  EXPECT_EQ(problems(LearningRate{"constant", 1, 0.1, 0, 0, 10}).size(), 1u);
  EXPECT_EQ(problems(LearningRate{"inverse-sqrt", 1, 0.1, 0, 5, 10}).size(), 2u);
  EXPECT_EQ(problems(LearningRate{"wsd-exponential", 1, 0, 0, 5, 10}).size(), 1u);
  EXPECT_TRUE(problems(LearningRate{"cosine", 1, 0.1, 0, 5, 10}).empty());
}

TEST(LearningRate, RefusalsSayWhatToTry) {
  const auto hint = [](const LearningRate& s) { return problems(s).at(0).hint; };
  EXPECT_EQ(hint({"wsd", 1e-3, 0, 10, 0, 100}), "--decay-steps 9");
  EXPECT_EQ(hint({"wsd", 1e-3, 0, 100, 1, 100}), "fewer --warmup-steps, or more --steps");
  EXPECT_EQ(hint({"cosine", 3e-4, 1e-3, 0, 0, 100}), "--final-learning-rate 3e-05, or a larger --learning-rate");
  EXPECT_EQ(hint({"cosin", 1e-3, 0, 0, 0, 100}), "did you mean 'cosine'?");
  EXPECT_EQ(hint({"constant", 1e-3, 0, 0, 5, 100}), "leave --decay-steps out, or --lr-schedule cosine");
}

TEST(LearningRate, AWarmUpCanBeginAboveZero) {
  const LearningRate s{"cosine", 1.0, 0.1, 4, 0, 10, 0.2};
  EXPECT_NEAR(s.at(0), 0.4, 1e-15);
  EXPECT_NEAR(s.at(1), 0.6, 1e-15);
  EXPECT_EQ(s.at(3), 1.0);
  EXPECT_EQ(s.at(6), (LearningRate{"cosine", 1.0, 0.1, 4, 0, 10}.at(6)));
  EXPECT_TRUE(problems(s).empty());
  EXPECT_EQ(problems(LearningRate{"cosine", 1, 0, 0, 0, 10, 0.2}).size(), 1u) << "no warm-up";
  EXPECT_EQ(problems(LearningRate{"cosine", 1, 0, 4, 0, 10, 2}).size(), 1u) << "above the peak";
  EXPECT_EQ(problems(LearningRate{"linear", 1, 0.1, 10, 0, 10}).size(), 1u) << "nothing is left to decay in";
}

TEST(LearningRate, OtherSchedules) {
  EXPECT_DOUBLE_EQ((LearningRate{"constant", 0.5, 0, 0, 0, 10}.at(7)), 0.5);
  EXPECT_DOUBLE_EQ((LearningRate{"linear", 1, 0, 0, 0, 10}.at(4)), 0.5);
  EXPECT_DOUBLE_EQ((LearningRate{"wsd", 1, 0, 0, 4, 10}.at(5)), 1);
  EXPECT_DOUBLE_EQ((LearningRate{"wsd", 1, 0, 0, 4, 10}.at(7)), 0.5);
  EXPECT_DOUBLE_EQ((LearningRate{"inverse-sqrt", 1, 0, 4, 0, 100}.at(15)), 0.5);
  // Half of the decay: the decay has 8 steps and ends with step 20, so half is step 16.
  EXPECT_NEAR((LearningRate{"wsd-cosine", 1, 0.2, 0, 8, 20}.at(15)), 0.6, 1e-15);
  EXPECT_NEAR((LearningRate{"wsd-exponential", 1, 0.01, 0, 8, 20}.at(15)), 0.1, 1e-15);
  EXPECT_NEAR((LearningRate{"wsd-minus-sqrt", 1, 0, 0, 8, 20}.at(13)), 0.5, 1e-15);  // a quarter
  for (const char* name : {"wsd-cosine", "wsd-exponential", "wsd-minus-sqrt"}) {
    EXPECT_DOUBLE_EQ((LearningRate{name, 1, 0.01, 2, 8, 20}.at(11)), 1) << name;
    EXPECT_NEAR((LearningRate{name, 1, 0.01, 2, 8, 20}.at(19)), 0.01, 1e-15) << name;
  }
  for (const char* name : {"linear", "cosine"}) {  // decay-steps: ends early, and the rate is final from then on
    EXPECT_NEAR((LearningRate{name, 1, 0.5, 2, 4, 20}.at(3)), 0.75, 1e-15) << name;
    EXPECT_DOUBLE_EQ((LearningRate{name, 1, 0.5, 2, 4, 20}.at(5)), 0.5) << name;
    EXPECT_DOUBLE_EQ((LearningRate{name, 1, 0.5, 2, 4, 20}.at(19)), 0.5) << name;
  }
  // A decay to 0 ends half a step earlier, so that the last step learns, also in a run of one step.
  EXPECT_NEAR((LearningRate{"linear", 1, 0, 0, 0, 10}.at(9)), 0.05, 1e-15);
  EXPECT_NEAR((LearningRate{"linear", 1, 0, 0, 0, 10}.at(8)), 0.1, 1e-15);
  EXPECT_DOUBLE_EQ((LearningRate{"linear", 1, 0, 0, 0, 1}.at(0)), 0.5);
  EXPECT_DOUBLE_EQ((LearningRate{"cosine", 1, 0, 0, 0, 1}.at(0)), 0.5);
  EXPECT_NEAR((LearningRate{"cosine", 1, 0, 0, 0, 10}.at(9)), 0.5 * (1 + std::cos(M_PI * 0.95)), 1e-15);
  EXPECT_DOUBLE_EQ((LearningRate{"wsd", 1, 0, 0, 4, 10}.at(9)), 0.125);
  for (const char* name : {"linear", "cosine", "wsd", "wsd-cosine", "wsd-minus-sqrt"})
    for (const std::int64_t steps : {1, 2, 3, 10})
      for (std::int64_t s = 0; s < steps; ++s)
        EXPECT_GT((LearningRate{name, 1e-3, 0, 0, steps, steps}.at(s)), 0) << name << " " << s << " of " << steps;
  EXPECT_EQ(problems(LearningRate{"cosine", 1, 0, 2, 5, 10}).size(), 1u);
  EXPECT_TRUE(problems(LearningRate{"cosine", 1, 0, 5, 5, 10}).empty());
  EXPECT_EQ(problems(LearningRate{"cosin", -1, 0, 20, 0, 10}).size(), 4u);
}

// PyTorch's arrays begin with its step 0, before the first call of its scheduler.
TEST(LearningRate, SchedulesOfPyTorch) {
  const LearningRate one{.schedule = "one-cycle",
                         .peak = 0.01,
                         .final = 0.01 / 25 / 1e4,
                         .warmup_steps = 6,
                         .total_steps = 20,
                         .start = 0.01 / 25};
  EXPECT_TRUE(problems(one).empty());
  for (int n = 0; n < 20; ++n) EXPECT_NEAR(one.at(n), golden::one_cycle[n], 1e-15) << n;
  // Here the last step of a cycle has the final rate. PyTorch has the peak there, as the first rate of the next cycle.
  const auto expect_cycles = [](const std::string& text, const auto& golden) {
    auto s = schedule_of(text);
    s.peak = 0.01, s.final = 1e-4, s.total_steps = std::ssize(golden);
    EXPECT_TRUE(problems(s).empty());
    for (std::int64_t n = 1; n < s.total_steps; ++n)
      EXPECT_NEAR(s.at(n - 1), golden[n] == 0.01 ? 1e-4 : golden[n], 1e-15) << text << " " << n;
  };
  expect_cycles("cosine-restarts:5", golden::restarts);
  expect_cycles("cosine-restarts:5,2", golden::longer_restarts);
  const auto expect_powers = [](const std::string& text, const auto& golden) {
    auto s = schedule_of(text);
    s.peak = 0.01, s.total_steps = std::ssize(golden);
    for (std::int64_t n = 1; n < s.total_steps; ++n) EXPECT_NEAR(s.at(n - 1), golden[n], 1e-15) << text << " " << n;
  };
  expect_powers("polynomial:2", golden::polynomial);
  expect_powers("polynomial:0.5", golden::root);
}

TEST(LearningRate, ACycleOrAWarmUpThatEndsAtZeroStillLearns) {
  auto s = schedule_of("cosine-restarts:4");
  s.peak = 1, s.warmup_steps = 2, s.total_steps = 10;
  EXPECT_EQ(s.at(1), 1);                                              // the warm-up ends at the peak
  EXPECT_NEAR(s.at(3), 0.5, 1e-15);                                   // half of the first cycle
  EXPECT_NEAR(s.at(5), 0.5 * (1 + std::cos(M_PI * 3.5 / 4)), 1e-15);  // its end, half a step before
  EXPECT_EQ(s.at(9), s.at(5));
  EXPECT_NEAR(
      (LearningRate{.schedule = "one-cycle", .peak = 1, .warmup_steps = 1, .total_steps = 3, .start = 0.1}.at(0)), 1,
      1e-15);
}

TEST(LearningRate, NumbersOfASchedule) {
  EXPECT_EQ(schedule_text(schedule_of("cosine")), "cosine");
  EXPECT_EQ(schedule_text(schedule_of("polynomial:2.50")), "polynomial:2.5");
  EXPECT_EQ(schedule_text(schedule_of("cosine-restarts:0100")), "cosine-restarts:100,1");
  EXPECT_EQ(schedule_text(schedule_of("cosine-restarts:100, 3")), "cosine-restarts:100,3");
  for (const char* bad : {"",
                          ":",
                          "cosin",
                          "cosine:",
                          "cosine:2",
                          "polynomial",
                          "polynomial:",
                          "polynomial:0",
                          "polynomial:nan",
                          "polynomial:11",
                          "polynomial:2,2",
                          "polynomial:1e999",
                          "cosine-restarts",
                          "cosine-restarts:",
                          "cosine-restarts:0",
                          "cosine-restarts:5,0",
                          "cosine-restarts:5,2,2",
                          "cosine-restarts:5,1.5",
                          "cosine-restarts:-5",
                          "cosine-restarts:5,",
                          "cosine-restarts:99999999999999999999"})
    EXPECT_THROW(schedule_of(bad), base::UsageError) << bad;
  try {
    schedule_of("cosine-restart:5");
    FAIL();
  } catch (const base::UsageError& e) {
    EXPECT_EQ(e.hint(), "did you mean 'cosine-restarts'?");
  }
  const auto count = [](const std::string& text, LearningRate s) {
    const auto named = schedule_of(text);
    s.schedule = named.schedule, s.power = named.power;
    s.restart_steps = named.restart_steps, s.restart_factor = named.restart_factor;
    return problems(s).size();
  };
  const LearningRate plain{.peak = 1, .total_steps = 10};
  EXPECT_EQ(count("one-cycle", plain), 1u);
  EXPECT_EQ(count("one-cycle", {.peak = 1, .warmup_steps = 3, .total_steps = 10}), 1u);
  EXPECT_EQ(count("one-cycle", {.peak = 1, .warmup_steps = 3, .total_steps = 10, .start = 0.1}), 0u);
  EXPECT_EQ(count("one-cycle", {.peak = 1, .warmup_steps = 10, .total_steps = 10, .start = 0.1}), 1u);
  EXPECT_EQ(count("cosine-restarts:4", {.peak = 1, .warmup_steps = 10, .total_steps = 10}), 1u);
  const auto one = problems(LearningRate{.schedule = "one-cycle", .peak = 1, .warmup_steps = 3, .total_steps = 10});
  EXPECT_EQ(one.at(0).message, "--lr-schedule one-cycle needs a --start-learning-rate");
  EXPECT_EQ(one.at(0).hint, "--start-learning-rate 4%");
  EXPECT_EQ(count("cosine-restarts:10", plain), 0u);
  EXPECT_EQ(count("cosine-restarts:11", plain), 1u);
  EXPECT_EQ(count("cosine-restarts:5", {.peak = 1, .decay_steps = 5, .total_steps = 10}), 1u);
  EXPECT_EQ(count("polynomial:2", {.peak = 1, .decay_steps = 5, .total_steps = 10}), 1u) << "0 after the decay";
  EXPECT_EQ(count("polynomial:2", {.peak = 1, .final = 0.1, .decay_steps = 5, .total_steps = 10}), 0u);
}

TEST(LearningRate, AmountsInOtherUnits) {
  RunConfig c;
  auto fields = fields_of(c);
  const auto set = [&](const char* name, const char* text) { base::field_named(fields, name, "").set(text, name); };
  c.steps = 1000, c.global_batch = 16, c.learning_rate = 0.002;
  set("warmup-steps", "3%"), set("decay-steps", "1000samples");
  set("start-learning-rate", "4%"), set("final-learning-rate", "10%");
  auto rate = learning_rate_of(c);
  EXPECT_EQ(rate.warmup_steps, 30);
  EXPECT_EQ(rate.decay_steps, 63);  // 62.5
  // 4, 8, 12 and 16 sequences, each for some steps: 100 samples end in the same step as in a sum by hand.
  c.batch_ramp = {.start = 4, .increment = 4, .length = 640, .unit = plan::BatchRamp::Unit::tokens}, c.sequence = 10;
  const plan::BatchSizes sizes({16, c.batch_ramp.in_samples(10)});
  std::int64_t summed = 0, steps = 0;
  while (summed < 100) summed += sizes.size_after(steps++);
  EXPECT_GT(steps, 7);
  for (const auto& [samples, expected] :
       {std::pair("100samples", steps), std::pair("0samples", std::int64_t{0}), std::pair("1samples", std::int64_t{1}),
        std::pair("5samples", std::int64_t{2})}) {
    set("warmup-steps", samples);
    EXPECT_EQ(learning_rate_of(c).warmup_steps, expected) << samples;
  }
  c.batch_ramp = {}, c.sequence = 0, set("warmup-steps", "3%");
  EXPECT_DOUBLE_EQ(rate.start, 0.00008);
  EXPECT_DOUBLE_EQ(rate.final, 0.0002);
  EXPECT_EQ(base::field_named(fields, "warmup-steps", "").get(), "3%");
  EXPECT_EQ(base::field_named(fields, "decay-steps", "").get(), "1000samples");
  // No percent of whole steps becomes a step more by rounding.
  for (const std::int64_t steps : {100, 1000, 10000, 700, 12300})
    for (int percent = 1; percent <= 100; ++percent) {
      c.steps = steps, set("warmup-steps", fmt::format("{}%", percent).c_str());
      EXPECT_EQ(learning_rate_of(c).warmup_steps, steps / 100 * percent) << steps << " " << percent;
      c.steps = steps, set("warmup-steps", fmt::format("{}%", percent / 10.0).c_str());
      EXPECT_EQ(learning_rate_of(c).warmup_steps, (steps * percent + 999) / 1000) << steps << " " << percent / 10.0;
    }
  set("warmup-steps", "7"), set("final-learning-rate", "1e-5");
  EXPECT_EQ(learning_rate_of(c).warmup_steps, 7);
  EXPECT_EQ(learning_rate_of(c).final, 1e-5);
  for (const char* bad : {"%", "-1%", "101%", "nan%", "5 %", "samples", "1.5samples", "-1samples", "1.5", "5 samples",
                          "9999999999999999samples", ""})
    EXPECT_THROW(set("warmup-steps", bad), base::UsageError) << bad;
  try {
    set("warmup-steps", "101%");
    FAIL();
  } catch (const base::UsageError& e) {
    EXPECT_STREQ(e.what(), "warmup-steps '101%' must be a number from 0 to 100%");
  }
  try {
    base::field_named(fields, "lr-schedule", "").set("cosine-restarts:0", "run.toml: lr-schedule");
    FAIL();
  } catch (const base::UsageError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("run.toml: lr-schedule \"cosine-restarts:0\": it takes")) << e.what();
  }
  for (const auto& [name, bad] : {std::pair("loss-scale", "static:3"), {"skip-outliers", "norm:1"}}) try {
      base::field_named(fields, name, "").set(bad, fmt::format("run.toml: {}", name));
      FAIL() << name;
    } catch (const base::UsageError& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with(fmt::format("run.toml: {} {}: a ", name, bad))) << e.what();
    }
  for (const char* bad : {"%", "10samples", "1e31", "-10%", "1e999%"})
    EXPECT_THROW(set("final-learning-rate", bad), base::UsageError) << bad;
}

TEST(Identity, NamesWhatDiffersAndAllowsWhatIsNamed) {
  const nlohmann::json was{{"seed", 1}, {"steps", 10}}, now{{"seed", 2}, {"steps", 20}};
  require_same_run(was, was, {}, "x");
  try {
    require_same_run(was, now, {}, "x");
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("--seed: the checkpoint has 1, this run 2"), std::string::npos);
    EXPECT_NE(e.hint().find("--change seed,steps"), std::string::npos);
  }
  EXPECT_THROW(require_same_run(was, now, {"seed"}, "x"), base::InputError);
  // Runs from before these settings existed had their defaults.
  auto later = was;
  later["start_learning_rate"] = 0.0, later["decay_embeddings"] = "off";
  require_same_run(was, later, {}, "x");
  later["decay_embeddings"] = "on";
  EXPECT_THROW(require_same_run(was, later, {}, "x"), base::InputError);
  require_same_run(was, now, {"seed", "steps"}, "x");
  EXPECT_THROW(require_same_run(was, now, {"speed"}, "x"), base::UsageError);
}

TEST(MetricsOfARun, AResumeCutsLaterAndBrokenLines) {
  const auto path =
      (std::filesystem::temp_directory_path() / ("trainyard-metrics-" + std::to_string(getpid()))).string();
  {
    MetricsFile file(path, 0);
    for (int step = 1; step <= 5; ++step) {
      StepMetrics m;
      m.step = step;
      m.loss = step == 5 ? NAN : 1.0 / 3;
      file.write(m);
    }
  }
  std::ofstream(path, std::ios::app) << "{\"step\":6,\"lo";
  { MetricsFile file(path, 3); }
  std::ifstream in(path);
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines)
    EXPECT_NE(line.find("\"loss\":0.3333333333333333"), std::string::npos);
  EXPECT_EQ(lines, 3);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace trainyard::engine

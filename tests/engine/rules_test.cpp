// Learning rates computed by hand, identities, and metrics that a resume truncates.
#include "libtrain/base/error.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/learning_rate.h"
#include "libtrain/engine/metrics.h"

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

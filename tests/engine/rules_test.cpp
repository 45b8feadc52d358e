// Learning rates by hand, identities, and metrics that a resume cuts back.
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

TEST(LearningRate, OtherSchedules) {
  EXPECT_DOUBLE_EQ((LearningRate{"constant", 0.5, 0, 0, 0, 10}.at(7)), 0.5);
  EXPECT_DOUBLE_EQ((LearningRate{"linear", 1, 0, 0, 0, 10}.at(4)), 0.5);
  EXPECT_DOUBLE_EQ((LearningRate{"wsd", 1, 0, 0, 4, 10}.at(5)), 1);
  EXPECT_DOUBLE_EQ((LearningRate{"wsd", 1, 0, 0, 4, 10}.at(7)), 0.5);
  EXPECT_DOUBLE_EQ((LearningRate{"inverse-sqrt", 1, 0, 4, 0, 100}.at(15)), 0.5);
  EXPECT_EQ(problems(LearningRate{"cosin", -1, 0, 20, 0, 10}).size(), 4u);
}

TEST(Identity, NamesWhatDiffersAndAllowsWhatIsNamed) {
  const nlohmann::json was{{"seed", 1}, {"steps", 10}}, now{{"seed", 2}, {"steps", 20}};
  require_same_run(was, was, {}, "x");
  try {
    require_same_run(was, now, {}, "x");
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("seed: the checkpoint has 1, this run 2"), std::string::npos);
    EXPECT_NE(e.hint().find("--change seed,steps"), std::string::npos);
  }
  EXPECT_THROW(require_same_run(was, now, {"seed"}, "x"), base::InputError);
  require_same_run(was, now, {"seed", "steps"}, "x");
  EXPECT_THROW(require_same_run(was, now, {"speed"}, "x"), base::UsageError);
}

TEST(Metrics, AResumeCutsLaterAndBrokenLines) {
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

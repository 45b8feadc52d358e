// Steps compared with what a plan predicts.
#include "libtrain/engine/step_watch.h"

#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace step_watch_test {

const plan::PredictedStep predicted{
    "mine", 1, 0.9, 1.2, {{"products", 0.6}, {"kernels", 0.1}, {"data_parallel", 0.2}, {"offload", 0.1}}};

engine::StepMetrics step(std::int64_t number, double seconds, double compute, double communication) {
  engine::StepMetrics m;
  m.step = number, m.step_seconds = seconds, m.compute_seconds = compute, m.communication_seconds = communication;
  m.hidden_communication_seconds = 0.1;
  return m;
}

TEST(StepWatch, SaysWhatWasSlowAtTheThirdStepInARow) {
  engine::StepWatch watch(predicted);
  auto first = step(1, 5, 5, 0);
  EXPECT_EQ(watch.look(first, true), "");
  EXPECT_EQ(first.predicted_step_seconds, 1);
  EXPECT_EQ(watch.text(), "") << "the first step is not counted";
  auto inside = step(2, 1.1, 0.8, 0.3);
  EXPECT_EQ(watch.look(inside, true), "");
  std::string sentence;
  for (int i = 3; i <= 6; ++i) {
    auto slow = step(i, 2, 0.8, 1.3);
    const auto said = watch.look(slow, true);
    EXPECT_EQ(said.empty(), i != 5) << i;
    if (!said.empty()) sentence = said;
  }
  EXPECT_EQ(
      sentence,
      "3 steps up to step 5 took longer than the plan predicts for mine: the last one 2.00 s, predicted 900 ms to "
      "1.20 s; what differs most is communication that nothing hides, and waiting for slower ranks: 1.20 s, "
      "predicted 200 ms");
  auto smaller = step(7, 0.1, 0.1, 0);
  EXPECT_EQ(watch.look(smaller, false), "");
  EXPECT_FALSE(smaller.predicted_step_seconds);
  EXPECT_EQ(watch.text(),
            "step time: 1.82 s in the mean of 5 steps, 1 of them within the 900 ms to 1.20 s that the "
            "plan predicts for mine");
}

TEST(StepWatch, NamesComputingAndTheDisk) {
  for (const bool disk : {false, true}) {
    engine::StepWatch watch(predicted);
    std::string said;
    for (int i = 1; i <= 4; ++i) {
      auto m = step(i, 3, disk ? 0.7 : 2.7, 0.3);
      if (disk) m.disk_wait_seconds = 2;
      said = watch.look(m, true);
    }
    EXPECT_NE(said.find(disk ? "is waiting for the disk: 2.00 s, predicted 100 ms"
                             : "is computing: 2.70 s, predicted "
                               "700 ms"),
              std::string::npos)
        << said;
  }
}

TEST(StepWatch, OnlyForTheLayoutOfTheFile) {
  plan::Plan p;
  p.model = plan::preset("gpt2-nano");
  p.step = predicted;
  EXPECT_EQ(engine::prediction_for(p, p), predicted);
  EXPECT_FALSE(engine::prediction_for({}, p).known());
  auto other = p;
  other.micro_batch = 2;
  EXPECT_FALSE(engine::prediction_for(p, other).known());
  other = p;
  other.threads = 7;
  EXPECT_TRUE(engine::prediction_for(p, other).known()) << "a plan says nothing of threads that a step needs";
  other.model.layers = 3;
  EXPECT_FALSE(engine::prediction_for(p, other).known());
  engine::StepWatch watch({});
  auto m = step(1, 1, 1, 0);
  EXPECT_EQ(watch.look(m, true), "");
  EXPECT_FALSE(m.predicted_step_seconds);
}

}  // namespace step_watch_test
}  // namespace trainyard

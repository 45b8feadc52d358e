// StepPace: speed, seconds a step and time left cover the same steps, whatever was slow or happened once.
#include "tools/common/step_pace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using trainyard::tools::StepPace;

namespace {

constexpr double tokens = 1024;
trainyard::tools::StepTimes step(double seconds, double validation = 0) {
  return {seconds, validation, tokens / seconds};
}

}  // namespace

// One slow step, such as one that copies a checkpoint, changes speed and seconds a step alike.
TEST(StepPace, SpeedTimesSecondsIsTheTokensOfAStep) {
  StepPace pace;
  for (int i = 0; i < 250; ++i) {
    pace.add(step(i % 10 == 9 ? 1.3 : 0.16 + 0.001 * i));
    EXPECT_NEAR(pace.tokens_per_second() * pace.step_seconds(), tokens, 1e-6) << i;
    EXPECT_NEAR(pace.seconds_left(50), 50 * pace.step_seconds(), 1e-9) << i;
  }
}

TEST(StepPace, TheMeansAreOverTheLastSteps) {
  StepPace pace;
  EXPECT_TRUE(std::isnan(pace.step_seconds()));
  EXPECT_TRUE(std::isnan(pace.tokens_per_second()));
  for (int i = 0; i < 10; ++i) pace.add(step(100));  // the first steps of a start
  EXPECT_EQ(pace.steps(), 10);
  EXPECT_DOUBLE_EQ(pace.step_seconds(), 100);
  for (int i = 0; i < 100; ++i) pace.add(step(2));
  EXPECT_EQ(pace.steps(), 100);
  EXPECT_DOUBLE_EQ(pace.step_seconds(), 2);
  EXPECT_DOUBLE_EQ(pace.tokens_per_second(), 512);
  EXPECT_EQ(pace.seconds_left(0), 0);
  EXPECT_EQ(pace.seconds_left(-3), 0);
}

// With a validation every 500 steps, most windows of 100 steps have none. The time left does not jump when the
// validation leaves the window.
TEST(StepPace, ValidationsAreOnlyInTheTimeLeft) {
  StepPace pace;
  for (int i = 1; i <= 1000; ++i) pace.add(step(1, i % 500 == 0 ? 250 : 0));
  EXPECT_DOUBLE_EQ(pace.step_seconds(), 1);
  EXPECT_DOUBLE_EQ(pace.tokens_per_second(), tokens);
  EXPECT_DOUBLE_EQ(pace.seconds_left(1000), 1500);
  for (int i = 1; i <= 150; ++i) pace.add(step(1));
  EXPECT_NEAR(pace.seconds_left(1000), 1435, 1);
}

TEST(StepPace, WhatIsNotKnownIsLeftOut) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  StepPace pace;
  pace.add({nan, 1, 5});
  pace.add({-1, 1, 5});
  pace.add({INFINITY, 1, 5});
  EXPECT_EQ(pace.steps(), 0);
  pace.add({2, nan, nan});
  EXPECT_TRUE(std::isnan(pace.tokens_per_second()));
  EXPECT_DOUBLE_EQ(pace.seconds_left(3), 6);
  pace.add({2, 0, 10});
  EXPECT_DOUBLE_EQ(pace.tokens_per_second(), 10);
  pace.add({0, 0, INFINITY});
  EXPECT_DOUBLE_EQ(pace.tokens_per_second(), 10);
}

// Compares the moving average with double precision over many steps, and replays the written sequence bit by bit.
#include "kernels/update/update.h"
#include "tests/kernels/operand_types.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace average_test {

// A mean of t values that begins at 0 is the sum of (1 - d) d^(t - k) x_k.
TEST(Average, IsTheWeightedSumOfAllWeights) {
  constexpr std::int64_t n = 37;
  constexpr int steps = 50;
  for (const double decay : {0.9, 0.99}) {
    Bench bench(1);
    MatrixBuffer average(DType::f32, 1, n);
    for (std::int64_t i = 0; i < n; ++i) average.set(0, i, 0);
    std::vector<double> want(static_cast<std::size_t>(n), 0);
    kernels::Average rule;
    rule.learning_rate = static_cast<float>(1 - decay);
    rule.gradient_scale = 3;  // which no weight is multiplied by
    for (int step = 0; step < steps; ++step) {
      MatrixBuffer weight(DType::f32, 1, n);
      weight.fill(static_cast<std::uint64_t>(step) + 2);
      kernels::update(*bench, {.rule = rule, .gradient = weight.view(), .parameter = average.view()});
      for (std::int64_t i = 0; i < n; ++i)
        want[static_cast<std::size_t>(i)] += (1 - decay) * std::pow(decay, steps - 1 - step) * weight(0, i);
    }
    for (std::int64_t i = 0; i < n; ++i) EXPECT_NEAR(average(0, i), want[static_cast<std::size_t>(i)], 2e-6) << decay;
  }
}

// Every operation goes through a volatile, so that nothing is fused, widened or reordered.
float rounded_average(float x) {
  volatile float r = x;
  return r;
}

TEST(Average, IsTheWrittenSequence) {
  for (const std::int64_t n : {1, 17, 8192 * 3 + 5})
    for (const int threads : {1, 3}) {
      MatrixBuffer p(DType::f32, 1, n), w(DType::f32, 1, n), before(DType::f32, 1, n);
      p.fill(1), before.fill(1), w.fill(2);
      kernels::Average rule;
      rule.learning_rate = 0.0123f;
      Bench bench(threads);
      kernels::update(*bench, {.rule = rule, .gradient = w.view(), .parameter = p.view()});
      for (std::int64_t i = 0; i < n; ++i) {
        const auto was = static_cast<float>(before(0, i)), weight = static_cast<float>(w(0, i));
        const float want = rounded_average(was + rounded_average(0.0123f * rounded_average(weight - was)));
        ASSERT_EQ(static_cast<float>(p(0, i)), want) << i;
      }
    }
}

TEST(Average, StaysInAStepThatIsNotFinite) {
  constexpr std::int64_t n = 9;
  MatrixBuffer p(DType::f32, 1, n), w(DType::f32, 1, n), before(DType::f32, 1, n);
  p.fill(1), before.fill(1), w.fill(2);
  kernels::StepNumbers numbers;
  numbers.finite = 0;
  kernels::Average rule;
  rule.learning_rate = 0.5f, rule.numbers = &numbers;
  Bench bench(1);
  kernels::update(*bench, {.rule = rule, .gradient = w.view(), .parameter = p.view()});
  for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(p(0, i), before(0, i));
  numbers.finite = 1;
  kernels::update(*bench, {.rule = rule, .gradient = w.view(), .parameter = p.view()});
  EXPECT_NE(p(0, 0), before(0, 0));
}

TEST(Average, RefusesOtherTypes) {
  const auto f = DType::f32;
  expect_types("update", {{"parameter", {4}, f}, {"gradient", {4}, f}}, [](auto& e, const auto& v) {
    kernels::update(e, {.rule = kernels::Average{}, .gradient = v[1], .parameter = v[0]});
  });
}

}  // namespace average_test
}  // namespace trainyard::test

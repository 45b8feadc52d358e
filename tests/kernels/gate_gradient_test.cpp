// Compares gradients of a gate with differences of its forward pass while choices are fixed. Also tests jitter.
#include "kernels/gate/gate.h"
#include "libtrain/base/random.h"
#include "tests/kernels/gate_case.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace gate_gradient_test {

using plan::GateScore;
using plan::Overflow;

// The differentiated function: weights of kept choices times fixed numbers, plus both losses times their coefficients
// and the target tokens.
double objective(const GateCase& c) {
  double sum = c.targets[0] * (c.scale.balance * c.losses[0] + c.scale.z * c.losses[1]);
  for (std::int64_t s = 0; s < c.tokens; ++s)
    for (std::int64_t j = 0; j < c.k; ++j)
      if (c.row(s, j) >= 0) sum += c.weights(s, j) * c.d_weights(s, j);
  return sum;
}

// One case: every logit is moved both ways. Logits have no grid, so that choices and places stay.
void check_gradient(GateCase c) {
  Host host(1);
  c.forward(host);
  c.fill_slopes(3);
  c.backward(host);
  ASSERT_TRUE(c.d_logits.gap_untouched());
  double largest = 0;
  for (std::int64_t s = 0; s < c.tokens; ++s)
    for (std::int64_t e = 0; e < c.experts; ++e) {
      double sides[2];
      for (int side = 0; side < 2; ++side) {
        auto moved = c;
        moved.logits.set(s, e, c.logits(s, e) + (side == 0 ? -1e-5 : 1e-5));
        moved.forward(host);
        ASSERT_EQ(moved.rows, c.rows);
        ASSERT_EQ(moved.chosen, c.chosen);
        sides[side] = objective(moved);
      }
      const double want = (sides[1] - sides[0]) / 2e-5;
      ASSERT_NEAR(c.d_logits(s, e), want, 2e-8 * (1 + std::abs(want))) << "token " << s << " expert " << e;
      largest = std::max(largest, std::abs(want));
    }
  EXPECT_TRUE(c.experts == 1 || c.scale.balance == 0 || largest > 1e-3) << largest;
}

TEST(GateGradient, IsThatOfDifferences) {
  int dropping = 0;
  for (auto score : {GateScore::softmax, GateScore::sigmoid})
    for (std::int64_t experts : {1, 2, 5})
      for (std::int64_t k = 1; k <= experts; ++k)
        for (std::int64_t capacity : {0, 1, 3})
          for (int losses = 0; losses < 4; ++losses) {
            SCOPED_TRACE(fmt::format("score {} of {} experts, {} choices, capacity {}, losses {}",
                                     static_cast<int>(score), experts, k, capacity, losses));
            kernels::Gate g;
            g.capacity = capacity, g.score = score, g.overflow = Overflow::position;
            GateCase c(DType::f64, 9, experts, k, g);
            c.biased = score == GateScore::sigmoid;
            c.fill(static_cast<std::uint64_t>(17 + k));
            c.scale.balance = losses % 2 == 1 ? 0.7 : 0, c.scale.z = losses >= 2 ? 0.3 : 0;
            check_gradient(c);
            if (::testing::Test::HasFailure()) return;
            Host host(1);
            c.forward(host);
            dropping += std::count(c.rows.begin(), c.rows.end(), -1) > 0 ? 1 : 0;
          }
  EXPECT_GT(dropping, 50);
}

// With every rule for placement, balance, weights, their scale and groups.
TEST(GateGradient, OfOtherRulesIsThatOfDifferences) {
  int dropping = 0;
  for (auto score : {GateScore::softmax, GateScore::sigmoid})
    for (std::int64_t k : {2, 3})
      for (std::int64_t capacity : {0, 2})
        for (std::uint64_t rules = 0; rules < 16; ++rules) {
          SCOPED_TRACE(
              fmt::format("score {}, {} choices, capacity {}, rules {}", static_cast<int>(score), k, capacity, rules));
          kernels::Gate g;
          g.capacity = capacity, g.score = score, g.overflow = Overflow::position;
          other_rules(g, k, rules);
          some_groups(g, 6, k, rules);
          GateCase c(DType::f64, 9, 6, k, g);
          c.fill(rules + 5);
          c.scale.balance = 0.7, c.scale.z = 0.3;
          check_gradient(c);
          if (::testing::Test::HasFailure()) return;
          Host host(1);
          c.forward(host);
          dropping += std::count(c.rows.begin(), c.rows.end(), -1) > 0 ? 1 : 0;
        }
  EXPECT_GT(dropping, 20);
}

// f32 gives the rounded f64 result, on each path and with any number of threads.
TEST(GateGradient, InF32IsThatInF64) {
  on_every_path([&] {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      SCOPED_TRACE(seed);
      auto c = random_gate(seed, DType::f32);
      c.scale.balance = seed % 2 == 0 ? 0.01 : 0, c.scale.z = seed % 3 == 0 ? 0.001 : 0;
      Host host(1);
      c.forward(host);
      c.fill_slopes(seed);
      GateCase wide(DType::f64, c.tokens, c.experts, c.k, c.gate);
      wide.gate = c.gate, wide.scale = c.scale, wide.samples = c.samples;
      wide.chosen = c.chosen, wide.rows = c.rows, wide.loads = c.loads;
      for (std::int64_t s = 0; s < c.tokens; ++s) {
        for (std::int64_t e = 0; e < c.experts; ++e) wide.logits.set(s, e, c.logits(s, e));
        for (std::int64_t j = 0; j < c.k; ++j) wide.d_weights.set(s, j, c.d_weights(s, j));
      }
      wide.backward(host);
      c.backward(host);
      for (std::int64_t s = 0; s < c.tokens; ++s)
        for (std::int64_t e = 0; e < c.experts; ++e)
          ASSERT_NEAR(c.d_logits(s, e), wide.d_logits(s, e), 3e-7 * (0.1 + std::abs(wide.d_logits(s, e))));
      for (int threads : {2, 3}) {
        auto again = c;
        Host more(threads);
        again.d_logits = MatrixBuffer(DType::f32, c.tokens, c.experts, 3);
        again.backward(more);
        for (std::int64_t s = 0; s < c.tokens; ++s)
          for (std::int64_t e = 0; e < c.experts; ++e) ASSERT_EQ(again.d_logits(s, e), c.d_logits(s, e));
      }
    }
  });
}

TEST(GateGradient, LossesNeedTheirTargets) {
  kernels::Gate g;
  GateCase c(DType::f32, 4, 3, 1, g);
  c.fill(1);
  c.d_weights.fill(2);
  Host host(1);
  c.forward(host);
  kernels::GateLossScale scale;
  kernels::gate_backward(host.exec(), {.gate = c.gate_at(host),
                                       .logits = c.logits.view(),
                                       .choice = c.choice_at(host),
                                       .d_weights = c.d_weights.view(),
                                       .scale = scale,
                                       .d_logits = c.d_logits.view()});
  scale.z = 1;
  EXPECT_THROW(kernels::gate_backward(host.exec(), {.gate = c.gate_at(host),
                                                    .logits = c.logits.view(),
                                                    .choice = c.choice_at(host),
                                                    .d_weights = c.d_weights.view(),
                                                    .scale = scale,
                                                    .d_logits = c.d_logits.view()}),
               std::logic_error);
}

// Every factor depends on its key alone. No other token or channel, and no division of the micro-batch, changes it.
TEST(GateJitter, MultipliesByKeyedNumbers) {
  kernels::Gate g;
  g.seed = 21, g.noise_site = 8, g.sequence = 5;
  std::vector<std::uint64_t> samples{3, (std::uint64_t{1} << 29) + 1};
  g.samples = samples.data();
  for (std::int64_t h : {1, 63, 64, 200})
    sweep(
        [&](tensor::Exec& exec, DType t) {
          MatrixBuffer x(t, 10, h, 3), y(t, 10, h, 1);
          x.fill(4);
          kernels::gate_jitter(exec, g, x.view(), y.view());
          kernels::gate_jitter(exec, g, x.view(), x.view());
          return std::vector{y, x};
        },
        [&](DType t, const std::vector<MatrixBuffer>& out) {
          MatrixBuffer x(t, 10, h), want(t, 10, h);
          x.fill(4);
          for (std::int64_t s = 0; s < 10; ++s)
            for (std::int64_t c = 0; c < h; ++c) {
              const auto w = base::random_words(21, 8,
                                                samples[static_cast<std::size_t>(s / 5)] * 0x400000000u +
                                                    static_cast<std::uint64_t>(s % 5 * 16384 + c));
              want.set(s, c, x(s, c) * (0.99 + 0.02 * base::uniform53(w[0], w[1])));
              ASSERT_EQ(out[0](s, c), want(s, c)) << base::name_of(t);
              ASSERT_EQ(out[1](s, c), want(s, c)) << base::name_of(t) << " in place";
            }
        });
}

}  // namespace gate_gradient_test
}  // namespace trainyard::test

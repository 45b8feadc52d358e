// Compares Lion with a double-precision reference over many steps, and replays the written sequence bit by bit.
#include "kernels/update/update.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace lion_test {

// Chen et al. 2023, algorithm 2, in double precision.
struct PlainLion {
  double rate, beta1, beta2, decay;
  double m = 0;
  bool unsure = false;  // both parts of a sum nearly cancelled, so that f32 may have the other sign
  double step(double p, double gradient) {
    const double kept = beta1 * m, fresh = (1 - beta1) * gradient, c = kept + fresh;
    unsure = unsure || (c != 0 && std::abs(c) < 1e-6 * (std::abs(kept) + std::abs(fresh)));
    m = beta2 * m + (1 - beta2) * gradient;
    return p - rate * ((c > 0 ? 1 : c < 0 ? -1 : 0) + decay * p);
  }
};

// The first element never has a gradient, so that weight decay alone moves it.
TEST(Lion, FollowsTheReferenceForManySteps) {
  constexpr std::int64_t n = 96;
  constexpr int steps = 40;
  for (const double beta1 : {0.9, 0.95})
    for (const double decay : {0.0, 0.1}) {
      Bench bench(1);
      MatrixBuffer p(DType::f32, 1, n), m(DType::f32, 1, n);
      p.fill(1);
      for (std::int64_t i = 0; i < n; ++i) m.set(0, i, 0);
      std::vector<PlainLion> plain(static_cast<std::size_t>(n), {0.05, beta1, 0.99, decay});
      std::vector<double> want;
      for (std::int64_t i = 0; i < n; ++i) want.push_back(p(0, i));
      const double first = p(0, 0);
      kernels::Lion h;
      h.learning_rate = 0.05f, h.beta1 = static_cast<float>(beta1), h.weight_decay = static_cast<float>(decay);
      h.gradient_scale = 0.5f;
      std::int64_t compared = 0;
      for (int step = 0; step < steps; ++step) {
        MatrixBuffer g(DType::f32, 1, n);
        g.fill(static_cast<std::uint64_t>(step) + 2);
        g.set(0, 0, 0);
        kernels::update(*bench, {.rule = h, .gradient = g.view(), .parameter = p.view(), .states = {m.view()}});
        for (std::int64_t i = 0; i < n; ++i) {
          const auto at = static_cast<std::size_t>(i);
          want[at] = plain[at].step(want[at], 0.5 * g(0, i));
          if (plain[at].unsure) continue;
          ++compared;
          ASSERT_NEAR(p(0, i), want[at], 1e-5) << "step " << step + 1 << " of beta1 " << beta1;
          ASSERT_NEAR(m(0, i), plain[at].m, 1e-6) << "step " << step + 1;
        }
      }
      EXPECT_GT(compared, n * steps * 9 / 10);
      EXPECT_NEAR(p(0, 0), first * std::pow(1 - 0.05 * decay, steps), 1e-5);
    }
}

// Every operation goes through a volatile, so that nothing is fused, widened or reordered.
float rounded_lion(float x) {
  volatile float r = x;
  return r;
}

TEST(Lion, IsTheWrittenSequence) {
  for (const std::int64_t n : {1, 17, 8192 * 3 + 5}) {
    kernels::Lion h;
    h.learning_rate = 3e-2f, h.weight_decay = .1f, h.gradient_scale = .037f;
    const std::vector<kernels::Range> decayed =
        n == 1 ? std::vector<kernels::Range>{{0, 1}} : std::vector<kernels::Range>{{1, 5}, {9, n - 2}};
    MatrixBuffer p0(DType::f32, 1, n), g0(DType::f32, 1, n), m0(DType::f32, 1, n);
    p0.fill(1), g0.fill(2), m0.fill(3);
    if (n > 1)
      for (const std::int64_t i : {0, 3}) g0.set(0, i, 0), m0.set(0, i, 0);
    const float s1 = static_cast<float>(1 - static_cast<double>(h.beta1)),
                s2 = static_cast<float>(1 - static_cast<double>(h.beta2));
    std::vector<float> p, m;
    for (std::int64_t i = 0; i < n; ++i) {
      bool decays = false;
      for (const auto& r : decayed) decays = decays || (i >= r.first && i < r.end);
      const auto before = static_cast<float>(p0(0, i)), moment = static_cast<float>(m0(0, i));
      const float g = rounded_lion(static_cast<float>(g0(0, i)) * h.gradient_scale);
      const float c = rounded_lion(rounded_lion(h.beta1 * moment) + rounded_lion(s1 * g));
      const float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : 0.0f;
      const float u = rounded_lion(sign + rounded_lion((decays ? h.weight_decay : 0) * before));
      m.push_back(rounded_lion(rounded_lion(h.beta2 * moment) + rounded_lion(s2 * g)));
      p.push_back(rounded_lion(before - rounded_lion(h.learning_rate * u)));
    }
    if (n > 1) {
      EXPECT_EQ(p[0], static_cast<float>(p0(0, 0))) << "the sign of 0 is 0";
    }
    on_every_path([&] {
      for (int threads = 1; threads <= 4; ++threads) {
        Bench bench(threads);
        auto pp = p0, gg = g0, mm = m0;
        const auto narrow = threads % 2 == 0 ? DType::bf16 : DType::f16;
        MatrixBuffer working(narrow, 1, n), rounded_once(narrow, 1, n);
        kernels::update(*bench, {.rule = h,
                                 .gradient = gg.view(),
                                 .parameter = pp.view(),
                                 .states = {mm.view()},
                                 .working = working.view(),
                                 .decayed = decayed});
        ASSERT_EQ(gg.bytes, g0.bytes);
        for (std::int64_t i = 0; i < n; ++i) {
          const auto at = static_cast<std::size_t>(i);
          ASSERT_EQ(pp(0, i), p[at]) << i;
          ASSERT_EQ(mm(0, i), m[at]) << i;
          rounded_once.set(0, i, p[at]);
          ASSERT_EQ(working(0, i), rounded_once(0, i)) << base::name_of(narrow) << " " << i;
        }
      }
    });
  }
}

TEST(Lion, ChangesNothingInAStepThatIsNotFinite) {
  Bench bench(1);
  MatrixBuffer p(DType::f32, 1, 4), g(DType::f32, 1, 4), m(DType::f32, 1, 4);
  p.fill(1), g.fill(2), m.fill(3);
  const auto before = p.bytes, moment = m.bytes;
  kernels::StepNumbers numbers;
  numbers.gradient_scale = 1, numbers.finite = 0;
  kernels::Lion h;
  h.learning_rate = 1, h.numbers = &numbers;
  kernels::update(*bench, {.rule = h, .gradient = g.view(), .parameter = p.view(), .states = {m.view()}});
  EXPECT_EQ(p.bytes, before);
  EXPECT_EQ(m.bytes, moment);
  numbers.finite = 1;
  kernels::update(*bench, {.rule = h, .gradient = g.view(), .parameter = p.view(), .states = {m.view()}});
  EXPECT_NE(p.bytes, before);
}

TEST(Lion, RefusesOtherTypesAndSizes) {
  Bench bench(1);
  MatrixBuffer a(DType::f32, 1, 4), b(DType::f32, 1, 5), c(DType::f64, 1, 4);
  EXPECT_ANY_THROW(kernels::update(
      *bench, {.rule = kernels::Lion{}, .gradient = b.view(), .parameter = a.view(), .states = {a.view()}}));
  EXPECT_ANY_THROW(kernels::update(
      *bench, {.rule = kernels::Lion{}, .gradient = a.view(), .parameter = a.view(), .states = {c.view()}}));
  EXPECT_ANY_THROW(kernels::update(  // a state too many, then one too few
      *bench, {.rule = kernels::Lion{}, .gradient = a.view(), .parameter = a.view(), .states = {a.view(), a.view()}}));
  EXPECT_ANY_THROW(kernels::update(*bench, {.rule = kernels::Lion{}, .gradient = a.view(), .parameter = a.view()}));
  EXPECT_ANY_THROW(kernels::update(*bench, {.rule = kernels::Lion{},
                                            .gradient = a.view(),
                                            .parameter = a.view(),
                                            .states = {a.view()},
                                            .working = a.view()}));
  const std::vector<kernels::Range> many(17);
  EXPECT_ANY_THROW(kernels::update(
      *bench,
      {.rule = kernels::Lion{}, .gradient = a.view(), .parameter = a.view(), .states = {a.view()}, .decayed = many}));
}

}  // namespace lion_test
}  // namespace trainyard::test

// Compares Muon's element-wise parts with double precision over many steps, and replays the written sequences bit by
// bit.
#include "kernels/muon/muon.h"
#include "kernels/update/update.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace muon_test {

// Every operation goes through a volatile, so that nothing is fused, widened or reordered.
float rounded(float x) {
  volatile float r = x;
  return r;
}

TEST(Muon, DirectionFollowsDoublePrecision) {
  constexpr std::int64_t n = 96;
  for (const bool nesterov : {false, true}) {
    Bench bench(1);
    MatrixBuffer m(DType::f32, 1, n);
    for (std::int64_t i = 0; i < n; ++i) m.set(0, i, 0);
    std::vector<double> want(n, 0.0);
    kernels::Muon h;
    h.nesterov = nesterov, h.gradient_scale = 0.5f;
    for (std::uint64_t step = 0; step < 40; ++step) {
      MatrixBuffer g(DType::f32, 1, n);
      const auto before = g.fill(step + 2);
      kernels::muon_direction(*bench, {.hyper = h, .gradient = g.view(), .m = m.view()});
      for (std::int64_t i = 0; i < n; ++i) {
        auto& w = want[static_cast<std::size_t>(i)];
        w = 0.95 * w + 0.5 * before(0, i);
        ASSERT_NEAR(m(0, i), w, 1e-5) << step;
        ASSERT_NEAR(g(0, i), nesterov ? 0.5 * before(0, i) + 0.95 * w : w, 1e-5) << step;
      }
    }
  }
}

TEST(Muon, PartsAreTheWrittenSequences) {
  for (const bool nesterov : {false, true})
    for (const std::int64_t n : {1, 17, 8192 * 3 + 5}) {
      kernels::Muon h;
      h.learning_rate = 3e-2f, h.momentum = 0.9f, h.weight_decay = .1f, h.gradient_scale = .37f, h.nesterov = nesterov;
      const std::vector<kernels::Range> decayed =
          n == 1 ? std::vector<kernels::Range>{{0, 1}} : std::vector<kernels::Range>{{1, 5}, {9, n - 2}};
      MatrixBuffer g0(DType::f32, 1, n), m0(DType::f32, 1, n), p0(DType::f32, 1, n);
      g0.fill(1), m0.fill(2), p0.fill(3);
      std::vector<float> direction, moment, weight;
      for (std::int64_t i = 0; i < n; ++i) {
        bool decays = false;
        for (const auto& r : decayed) decays = decays || (i >= r.first && i < r.end);
        const float g = rounded(static_cast<float>(g0(0, i)) * h.gradient_scale);
        moment.push_back(rounded(rounded(h.momentum * static_cast<float>(m0(0, i))) + g));
        direction.push_back(nesterov ? rounded(g + rounded(h.momentum * moment.back())) : moment.back());
        const auto p = static_cast<float>(p0(0, i));
        const float shrunk = rounded((decays ? h.weight_decay : 0) * p);
        const float change = rounded(direction.back() + shrunk);
        weight.push_back(rounded(p - rounded(h.learning_rate * change)));
      }
      on_every_path([&] {
        for (int threads = 1; threads <= 4; ++threads) {
          Bench bench(threads);
          auto g = g0, m = m0, p = p0;
          const auto narrow = threads % 2 == 0 ? DType::bf16 : DType::f16;
          MatrixBuffer working(narrow, 1, n), rounded_once(narrow, 1, n);
          kernels::muon_direction(*bench, {.hyper = h, .gradient = g.view(), .m = m.view()});
          const auto update = g.bytes;
          kernels::update(
              *bench,
              {.rule = h, .gradient = g.view(), .parameter = p.view(), .working = working.view(), .decayed = decayed});
          ASSERT_EQ(g.bytes, update);
          for (std::int64_t i = 0; i < n; ++i) {
            const auto at = static_cast<std::size_t>(i);
            ASSERT_EQ(m(0, i), moment[at]) << i;
            ASSERT_EQ(g(0, i), direction[at]) << i;
            ASSERT_EQ(p(0, i), weight[at]) << i;
            rounded_once.set(0, i, weight[at]);
            ASSERT_EQ(working(0, i), rounded_once(0, i)) << base::name_of(narrow) << " " << i;
          }
        }
      });
    }
}

// A narrow moment is widened first and rounded last; the direction comes from the one that is not rounded.
TEST(Muon, TakesANarrowMoment) {
  for (const auto t : {DType::bf16, DType::f16})
    for (const bool nesterov : {false, true}) {
      MatrixBuffer g(DType::f32, 1, 50), m(t, 1, 50), rounded_once(t, 1, 50);
      const auto gradient = g.fill(1), moment = m.fill(2);
      Bench bench(1);
      kernels::Muon h;
      h.momentum = 0.9f, h.nesterov = nesterov;
      kernels::muon_direction(*bench, {.hyper = h, .gradient = g.view(), .m = m.view()});
      for (std::int64_t i = 0; i < 50; ++i) {
        const auto fresh = static_cast<float>(gradient(0, i));
        const float kept = rounded(rounded(0.9f * static_cast<float>(moment(0, i))) + fresh);
        ASSERT_EQ(g(0, i), nesterov ? rounded(fresh + rounded(0.9f * kept)) : kept) << i;
        rounded_once.set(0, i, kept);
        ASSERT_EQ(m(0, i), rounded_once(0, i)) << base::name_of(t) << " " << i;
      }
    }
}

TEST(Muon, ChangesNothingInAStepThatIsNotFinite) {
  Bench bench(1);
  MatrixBuffer g(DType::f32, 1, 4), m(DType::f32, 1, 4), p(DType::f32, 1, 4);
  g.fill(1), m.fill(2), p.fill(3);
  const auto gradient = g.bytes, moment = m.bytes, weight = p.bytes;
  kernels::StepNumbers numbers;
  numbers.gradient_scale = 0.5f, numbers.finite = 0;
  kernels::Muon h;
  h.learning_rate = 1, h.gradient_scale = 1e9f, h.numbers = &numbers;
  const auto both = [&] {
    kernels::muon_direction(*bench, {.hyper = h, .gradient = g.view(), .m = m.view()});
    kernels::update(*bench, {.rule = h, .gradient = g.view(), .parameter = p.view()});
  };
  both();
  EXPECT_TRUE(g.bytes == gradient && m.bytes == moment && p.bytes == weight);
  numbers.finite = 1;
  both();
  EXPECT_TRUE(g.bytes != gradient && m.bytes != moment && p.bytes != weight);
  EXPECT_LT(std::abs(m(0, 0)), 2) << "the scale of the step counts";
}

TEST(Muon, RefusesOtherTypesAndSizes) {
  Bench bench(1);
  MatrixBuffer a(DType::f32, 1, 4), b(DType::f32, 1, 5), c(DType::f64, 1, 4);
  EXPECT_ANY_THROW(kernels::muon_direction(*bench, {.hyper = {}, .gradient = a.view(), .m = b.view()}));
  EXPECT_ANY_THROW(kernels::muon_direction(*bench, {.hyper = {}, .gradient = c.view(), .m = c.view()}));
  const kernels::Muon h;
  EXPECT_ANY_THROW(kernels::update(*bench, {.rule = h, .gradient = b.view(), .parameter = a.view()}));
  EXPECT_ANY_THROW(
      kernels::update(*bench, {.rule = h, .gradient = a.view(), .parameter = a.view(), .working = b.view()}));
  MatrixBuffer state(DType::f32, 1, 4);
  EXPECT_ANY_THROW(
      kernels::update(*bench, {.rule = h, .gradient = a.view(), .parameter = a.view(), .states = {state.view()}}));
  const std::vector<kernels::Range> many(17);
  EXPECT_ANY_THROW(kernels::update(*bench, {.rule = h, .gradient = a.view(), .parameter = a.view(), .decayed = many}));
}

}  // namespace muon_test
}  // namespace trainyard::test

// Compares LAMB with a double-precision reference over many steps, replays the written sequence bit by bit, and tests
// the exactness of the trust ratio.
#include "kernels/square_sum/square_sum.h"
#include "kernels/update/trust_ratio.h"
#include "kernels/update/update.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace lamb_test {

using kernels::squares_of_update;
using Digits = std::vector<std::int64_t>;

base::View rows_of(Digits& digits) {
  return base::View::of(digits.data(),
                        {static_cast<std::int64_t>(digits.size()) / squares_of_update, squares_of_update});
}

kernels::Lamb sample_rule() {
  kernels::Lamb h;
  h.learning_rate = 3e-2f, h.beta1 = .85f, h.beta2 = .97f, h.epsilon = 1e-5f, h.weight_decay = .1f;
  h.bias1 = 1 - std::pow(.85, 3), h.bias2 = 1 - std::pow(.97, 3), h.gradient_scale = .037f;
  return h;
}

// You et al. 2020, algorithm 2, in double precision, with the bias correction of its moments.
struct PlainLamb {
  double rate, beta1, beta2, epsilon, decay;
  std::vector<double> p, m = std::vector<double>(p.size()), v = m;
  double ratio = 0;
  void moments(const std::vector<double>& g) {
    for (std::size_t i = 0; i < p.size(); ++i)
      m[i] = beta1 * m[i] + (1 - beta1) * g[i], v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
  }
  void step(int number) {
    std::vector<double> u;
    double weights = 0, updates = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      u.push_back(m[i] / (1 - std::pow(beta1, number)) / (std::sqrt(v[i] / (1 - std::pow(beta2, number))) + epsilon) +
                  decay * p[i]);
      weights += p[i] * p[i], updates += u[i] * u[i];
    }
    ratio = weights > 0 && updates > 0 ? std::sqrt(weights / updates) : 1;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * ratio * u[i];
  }
};

// The moments become `found`: those in f32 are near, and those in bf16 are rounded. Where f32 is at the other side of
// the middle between two numbers, the reference goes on from the other number, and counts it in `ties`.
void take_moments(std::vector<double>& moments, const MatrixBuffer& found, int& ties) {
  for (std::int64_t i = 0; i < found.cols; ++i) {
    auto& exact = moments[static_cast<std::size_t>(i)];
    const double is = found(0, i);
    if (found.dtype == DType::f32) {
      ASSERT_NEAR(is, exact, 1e-6);
      continue;
    }
    const double rounded = static_cast<double>(static_cast<float>(base::bf16(static_cast<float>(exact))));
    if (is != rounded) {
      ASSERT_NEAR((is + rounded) / 2, exact, 1e-5 * std::abs(exact)) << is << " and " << rounded;
      ++ties;
    }
    exact = is;
  }
}

// One parameter. The second begins with zeros, so that its first ratio is 1.
TEST(Lamb, FollowsTheReferenceForManySteps) {
  constexpr std::int64_t n = 96;
  int ties = 0;
  for (const auto& [states, zeros] :
       {std::pair{DType::f32, false}, {DType::f32, true}, {DType::bf16, false}, {DType::bf16, true}})
    for (const double decay : {0.0, 0.1}) {
      Bench bench(1);
      MatrixBuffer p(DType::f32, 1, n), m(states, 1, n), v(states, 1, n);
      p.fill(1);
      PlainLamb plain{0.02, 0.9, 0.99, 1e-6, decay, {}};
      for (std::int64_t i = 0; i < n; ++i) {
        m.set(0, i, 0), v.set(0, i, 0);
        if (zeros) p.set(0, i, 0);
        plain.p.push_back(p(0, i));
      }
      plain.m = plain.v = std::vector<double>(plain.p.size());
      for (int number = 1; number <= 40; ++number) {
        kernels::Lamb h;
        h.learning_rate = 0.02f, h.beta1 = 0.9f, h.beta2 = 0.99f, h.weight_decay = static_cast<float>(decay);
        h.bias1 = 1 - std::pow(0.9, number), h.bias2 = 1 - std::pow(0.99, number), h.gradient_scale = 0.5f;
        MatrixBuffer g(DType::f32, 1, n);
        g.fill(static_cast<std::uint64_t>(number) + 2);
        std::vector<double> gradient;
        for (std::int64_t i = 0; i < n; ++i) gradient.push_back(0.5 * g(0, i));
        Digits digits(squares_of_update);
        float ratio = 0;
        kernels::update(*bench, {.rule = kernels::LambMoments{h},
                                 .gradient = g.view(),
                                 .parameter = p.view(),
                                 .states = {m.view(), v.view()}});
        plain.moments(gradient);
        take_moments(plain.m, m, ties), take_moments(plain.v, v, ties);
        plain.step(number);
        kernels::add_update_squares(
            *bench, {.rule = h, .parameter = p.view(), .m = m.view(), .v = v.view(), .squares = rows_of(digits)});
        kernels::trust_ratios(*bench, rows_of(digits), base::View::of(&ratio, {1}));
        ASSERT_NEAR(static_cast<double>(ratio), plain.ratio, 1e-4 * plain.ratio) << "step " << number;
        ASSERT_EQ(ratio == 1, zeros && number == 1) << "step " << number;
        h.rate_factor = &ratio;
        kernels::update(*bench,
                        {.rule = h, .gradient = g.view(), .parameter = p.view(), .states = {m.view(), v.view()}});
        for (std::int64_t i = 0; i < n; ++i) {
          const auto at = static_cast<std::size_t>(i);
          ASSERT_NEAR(p(0, i), plain.p[at], 2e-5) << "step " << number << ", element " << i;
        }
      }
    }
  EXPECT_LT(ties, 2 * 4 * 40 * n / 1000);
}

// Every operation goes through a volatile, so that nothing is fused, widened or reordered.
float rounded_lamb(float x) {
  volatile float r = x;
  return r;
}
float rounded_state(float x, DType states) { return states == DType::bf16 ? static_cast<float>(base::bf16(x)) : x; }

struct Replayed {
  std::vector<float> m, v, p, updates;
};
Replayed replay(const kernels::Lamb& h, float ratio, const std::vector<kernels::Range>& decayed,
                const std::vector<const MatrixBuffer*>& p_g_m_v) {
  const auto r = rounded_lamb;
  const float s1 = static_cast<float>(1 - static_cast<double>(h.beta1)),
              s2 = static_cast<float>(1 - static_cast<double>(h.beta2)), c1 = static_cast<float>(1 / h.bias1),
              c2 = static_cast<float>(1 / h.bias2);
  Replayed out;
  for (std::int64_t i = 0; i < p_g_m_v[0]->cols; ++i) {
    const auto of = [&](std::size_t which) { return static_cast<float>((*p_g_m_v[which])(0, i)); };
    bool decays = false;
    for (const auto& range : decayed) decays = decays || (i >= range.first && i < range.end);
    const float g = r(of(1) * h.gradient_scale);
    const auto states = p_g_m_v[2]->dtype;
    const float m = rounded_state(r(r(h.beta1 * of(2)) + r(s1 * g)), states),
                v = rounded_state(r(r(h.beta2 * of(3)) + r(s2 * r(g * g))), states);
    const float d = r(r(std::sqrt(r(v * c2))) + h.epsilon);
    const float u = r(r(r(m * c1) / d) + r((decays ? h.weight_decay : 0) * of(0)));
    out.m.push_back(m), out.v.push_back(v), out.updates.push_back(u);
    out.p.push_back(r(of(0) - r(r(h.learning_rate * ratio) * u)));
  }
  return out;
}

TEST(Lamb, IsTheWrittenSequence) {
  for (const auto& [states, n] : {std::pair<DType, std::int64_t>{DType::f32, 1},
                                  {DType::f32, 17},
                                  {DType::f32, 8192 * 3 + 5},
                                  {DType::bf16, 17},
                                  {DType::bf16, 8192 * 3 + 5}}) {
    auto h = sample_rule();
    const float ratio = 0.73f;
    const std::vector<kernels::Range> decayed =
        n == 1 ? std::vector<kernels::Range>{{0, 1}} : std::vector<kernels::Range>{{1, 5}, {9, n - 2}};
    MatrixBuffer p0(DType::f32, 1, n), g0(DType::f32, 1, n), m0(states, 1, n), v0(states, 1, n);
    p0.fill(1), g0.fill(2), m0.fill(3), v0.fill(4);
    for (std::int64_t i = 0; i < n; ++i) v0.set(0, i, std::abs(v0(0, i)));
    const auto want = replay(h, ratio, decayed, {&p0, &g0, &m0, &v0});
    on_every_path([&, n = n] {
      for (int threads = 1; threads <= 4; ++threads) {
        Bench bench(threads);
        auto pp = p0, gg = g0, mm = m0, vv = v0;
        const auto narrow = threads % 2 == 0 ? DType::bf16 : DType::f16;
        MatrixBuffer working(narrow, 1, n), rounded_once(narrow, 1, n);
        kernels::Update u{.rule = kernels::LambMoments{h},
                          .gradient = gg.view(),
                          .parameter = pp.view(),
                          .states = {mm.view(), vv.view()},
                          .working = working.view(),
                          .decayed = decayed};
        const auto untouched = working.bytes;
        kernels::update(*bench, u);
        ASSERT_EQ(pp.bytes, p0.bytes) << "the pass of the moments leaves the weights";
        ASSERT_EQ(working.bytes, untouched) << "and their working copy";
        h.rate_factor = &ratio;
        u.rule = h;
        kernels::update(*bench, u);
        ASSERT_EQ(gg.bytes, g0.bytes);
        for (std::int64_t i = 0; i < n; ++i) {
          const auto at = static_cast<std::size_t>(i);
          ASSERT_EQ(pp(0, i), want.p[at]) << i;
          ASSERT_EQ(mm(0, i), want.m[at]) << i;
          ASSERT_EQ(vv(0, i), want.v[at]) << i;
          rounded_once.set(0, i, want.p[at]);
          ASSERT_EQ(working(0, i), rounded_once(0, i)) << base::name_of(narrow) << " " << i;
        }
      }
    });
  }
}

// The digits are those of the sums of squares of the written sequence, however a parameter is cut.
TEST(Lamb, SumsAreExactHoweverAParameterIsCut) {
  const std::int64_t n = 8192 * 3 + 5;
  const auto h = sample_rule();
  for (const auto& [states, decays] :
       {std::pair{DType::f32, true}, {DType::f32, false}, {DType::bf16, true}, {DType::bf16, false}}) {
    MatrixBuffer p(DType::f32, 1, n), zero(DType::f32, 1, n), m(states, 1, n), v(states, 1, n);
    p.fill(1), m.fill(3), v.fill(4);
    for (std::int64_t i = 0; i < n; ++i) v.set(0, i, std::abs(v(0, i))), zero.set(0, i, 0);
    auto still = h;  // so that the replay leaves the moments as they are
    still.beta1 = still.beta2 = 1, still.gradient_scale = 0;
    const std::vector<kernels::Range> decayed(decays ? 1 : 0, kernels::Range{0, n});
    auto updates = replay(still, 1, decayed, {&p, &zero, &m, &v}).updates;
    Digits want;
    {
      Bench bench(1);
      for (const auto& x : {p.view(), base::View::of(updates.data(), {n})}) {
        kernels::FixedPointSum sum;
        kernels::square_sum(*bench, x, sum);
        want.insert(want.end(), sum.limbs.begin(), sum.limbs.end());
      }
    }
    on_every_path([&, decays = decays] {
      for (const auto& cuts : std::vector<std::vector<std::int64_t>>{{0, n}, {0, 5, 4096, 4097, 20000, n}})
        for (int threads = 1; threads <= 3; ++threads) {
          Bench bench(threads);
          Digits digits(squares_of_update);
          for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
            const auto part = [&](MatrixBuffer& x) { return x.view().elements(cuts[c], cuts[c + 1] - cuts[c]); };
            kernels::add_update_squares(*bench, {.rule = h,
                                                 .parameter = part(p),
                                                 .m = part(m),
                                                 .v = part(v),
                                                 .decays = decays,
                                                 .squares = rows_of(digits)});
          }
          kernels::carry_squares(*bench, rows_of(digits));
          ASSERT_EQ(digits, want) << cuts.size() << " cuts, " << threads << " threads";
        }
    });
  }
}

TEST(Lamb, TheRatioIsOneWhereANormIsZero) {
  Bench bench(1);
  Digits digits(4 * squares_of_update);
  const auto square_at = [&](int row, int which) -> std::int64_t& {  // digit 10 counts 1
    return digits[static_cast<std::size_t>(row * squares_of_update + which * kernels::square_sum_limbs + 10)];
  };
  square_at(0, 0) = 9, square_at(0, 1) = 16;
  square_at(1, 0) = 9;
  square_at(2, 1) = 9;
  std::vector<float> ratios(4);
  kernels::trust_ratios(*bench, rows_of(digits), base::View::of(ratios.data(), {4}));
  EXPECT_EQ(ratios, (std::vector<float>{0.75f, 1, 1, 1}));
}

TEST(Lamb, ChangesNothingInAStepThatIsNotFinite) {
  Bench bench(1);
  MatrixBuffer p(DType::f32, 1, 4), g(DType::f32, 1, 4), m(DType::f32, 1, 4), v(DType::f32, 1, 4);
  p.fill(1), g.fill(2), m.fill(3), v.fill(4);
  const auto before = p.bytes, first = m.bytes, second = v.bytes;
  kernels::StepNumbers numbers;
  numbers.gradient_scale = 1, numbers.finite = 0;
  auto h = sample_rule();
  h.numbers = &numbers;
  const auto both = [&] {
    kernels::Update u{
        .rule = kernels::LambMoments{h}, .gradient = g.view(), .parameter = p.view(), .states = {m.view(), v.view()}};
    kernels::update(*bench, u);
    u.rule = h;
    kernels::update(*bench, u);
  };
  both();
  EXPECT_TRUE(p.bytes == before && m.bytes == first && v.bytes == second);
  numbers.finite = 1;
  both();
  EXPECT_FALSE(p.bytes == before || m.bytes == first || v.bytes == second);
}

}  // namespace lamb_test
}  // namespace trainyard::test

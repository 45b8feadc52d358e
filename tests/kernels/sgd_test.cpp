// Compares SGD with momentum with a double-precision reference over many steps, and replays the written sequence bit by
// bit.
#include "kernels/update/update.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace sgd_test {

// torch.optim.SGD(lr, momentum, weight_decay, nesterov=...), written from its documentation in double precision. The
// first step makes the buffer the gradient.
struct PlainSgd {
  double rate, momentum, decay;
  bool nesterov;
  double buffer = 0;
  bool first = true;
  double step(double p, double gradient) {
    const double g = gradient + decay * p;
    buffer = first ? g : momentum * buffer + g;
    first = false;
    return p - rate * (nesterov ? g + momentum * buffer : buffer);
  }
};

TEST(Sgd, FollowsTheReferenceForManySteps) {
  constexpr std::int64_t n = 96;
  constexpr int steps = 40;
  for (const double momentum : {0.0, 0.9})
    for (const double decay : {0.0, 0.1})
      for (const bool nesterov : {false, true}) {
        Bench bench(1);
        MatrixBuffer p(DType::f32, 1, n), buffer(DType::f32, 1, n);
        p.fill(1);
        for (std::int64_t i = 0; i < n; ++i) buffer.set(0, i, 0);
        std::vector<PlainSgd> plain(static_cast<std::size_t>(n), {0.05, momentum, decay, nesterov});
        std::vector<double> want;
        for (std::int64_t i = 0; i < n; ++i) want.push_back(p(0, i));
        kernels::Sgd h;
        h.learning_rate = 0.05f, h.momentum = static_cast<float>(momentum), h.nesterov = nesterov;
        h.weight_decay = static_cast<float>(decay), h.gradient_scale = 0.5f;
        for (int step = 0; step < steps; ++step) {
          MatrixBuffer g(DType::f32, 1, n);
          g.fill(static_cast<std::uint64_t>(step) + 2);
          kernels::update(*bench, {.rule = h, .gradient = g.view(), .parameter = p.view(), .states = {buffer.view()}});
          for (std::int64_t i = 0; i < n; ++i) {
            const auto at = static_cast<std::size_t>(i);
            want[at] = plain[at].step(want[at], 0.5 * g(0, i));
            ASSERT_NEAR(p(0, i), want[at], 4e-6) << "step " << step + 1 << " of momentum " << momentum;
            ASSERT_NEAR(buffer(0, i), plain[at].buffer, 2e-5) << "step " << step + 1;
          }
        }
      }
}

// Every operation goes through a volatile, so that nothing is fused, widened or reordered.
float rounded_sgd(float x) {
  volatile float r = x;
  return r;
}

TEST(Sgd, IsTheWrittenSequence) {
  for (const bool nesterov : {false, true})
    for (const std::int64_t n : {1, 17, 8192 * 3 + 5}) {
      kernels::Sgd h;
      h.learning_rate = 3e-2f, h.weight_decay = .1f, h.gradient_scale = .37f, h.nesterov = nesterov;
      const std::vector<kernels::Range> decayed =
          n == 1 ? std::vector<kernels::Range>{{0, 1}} : std::vector<kernels::Range>{{1, 5}, {9, n - 2}};
      MatrixBuffer p0(DType::f32, 1, n), g0(DType::f32, 1, n), b0(DType::f32, 1, n);
      p0.fill(1), g0.fill(2), b0.fill(3);
      std::vector<float> p, b;
      for (std::int64_t i = 0; i < n; ++i) {
        bool decays = false;
        for (const auto& r : decayed) decays = decays || (i >= r.first && i < r.end);
        const auto before = static_cast<float>(p0(0, i));
        const float g = rounded_sgd(rounded_sgd(static_cast<float>(g0(0, i)) * h.gradient_scale) +
                                    rounded_sgd((decays ? h.weight_decay : 0) * before));
        b.push_back(rounded_sgd(rounded_sgd(h.momentum * static_cast<float>(b0(0, i))) + g));
        const float u = nesterov ? rounded_sgd(g + rounded_sgd(h.momentum * b.back())) : b.back();
        p.push_back(rounded_sgd(before - rounded_sgd(h.learning_rate * u)));
      }
      on_every_path([&] {
        for (int threads = 1; threads <= 4; ++threads) {
          Bench bench(threads);
          auto pp = p0, gg = g0, bb = b0;
          const auto narrow = threads % 2 == 0 ? DType::bf16 : DType::f16;
          MatrixBuffer working(narrow, 1, n), rounded_once(narrow, 1, n);
          kernels::update(*bench, {.rule = h,
                                   .gradient = gg.view(),
                                   .parameter = pp.view(),
                                   .states = {bb.view()},
                                   .working = working.view(),
                                   .decayed = decayed});
          ASSERT_EQ(gg.bytes, g0.bytes);
          for (std::int64_t i = 0; i < n; ++i) {
            const auto at = static_cast<std::size_t>(i);
            ASSERT_EQ(pp(0, i), p[at]) << i;
            ASSERT_EQ(bb(0, i), b[at]) << i;
            rounded_once.set(0, i, p[at]);
            ASSERT_EQ(working(0, i), rounded_once(0, i)) << base::name_of(narrow) << " " << i;
          }
        }
      });
    }
}

TEST(Sgd, ChangesNothingInAStepThatIsNotFinite) {
  Bench bench(1);
  MatrixBuffer p(DType::f32, 1, 4), g(DType::f32, 1, 4), b(DType::f32, 1, 4);
  p.fill(1), g.fill(2), b.fill(3);
  const auto before = p.bytes, buffer = b.bytes;
  kernels::StepNumbers numbers;
  numbers.gradient_scale = 1, numbers.finite = 0;
  kernels::Sgd h;
  h.learning_rate = 1, h.numbers = &numbers;
  kernels::update(*bench, {.rule = h, .gradient = g.view(), .parameter = p.view(), .states = {b.view()}});
  EXPECT_EQ(p.bytes, before);
  EXPECT_EQ(b.bytes, buffer);
  numbers.finite = 1;
  kernels::update(*bench, {.rule = h, .gradient = g.view(), .parameter = p.view(), .states = {b.view()}});
  EXPECT_NE(p.bytes, before);
}

TEST(Sgd, RefusesOtherTypesAndSizes) {
  Bench bench(1);
  MatrixBuffer a(DType::f32, 1, 4), b(DType::f32, 1, 5), c(DType::f64, 1, 4);
  EXPECT_ANY_THROW(kernels::update(
      *bench, {.rule = kernels::Sgd{}, .gradient = b.view(), .parameter = a.view(), .states = {a.view()}}));
  EXPECT_ANY_THROW(kernels::update(
      *bench, {.rule = kernels::Sgd{}, .gradient = a.view(), .parameter = a.view(), .states = {c.view()}}));
  EXPECT_ANY_THROW(kernels::update(*bench, {.rule = kernels::Sgd{},
                                            .gradient = a.view(),
                                            .parameter = a.view(),
                                            .states = {a.view()},
                                            .working = a.view()}));
  const std::vector<kernels::Range> many(17);
  EXPECT_ANY_THROW(kernels::update(
      *bench,
      {.rule = kernels::Sgd{}, .gradient = a.view(), .parameter = a.view(), .states = {a.view()}, .decayed = many}));
}

}  // namespace sgd_test
}  // namespace trainyard::test

// Compares AdamW and Adam with double-precision references, and replays the written sequence bit by bit.
#include "kernels/update/update.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace adamw_test {

// Two steps from p = [1, -2, .5] with gradients [.1, .2, -.3] and [-.05, .4, .1], computed in double precision by an
// independent implementation.
TEST(AdamW, FollowsTheReference) {
  Bench bench(1);
  std::vector<float> p{1, -2, .5f}, m(3), v(3);
  const std::vector<std::vector<float>> gradients{{.1f, .2f, -.3f}, {-.05f, .4f, .1f}};
  const double want[2][3] = {{.989900001, -2.0097999995, .509949999667},
                             {.987137640940, -2.019250839453, .513901190207}};
  for (int step = 0; step < 2; ++step) {
    auto g = gradients[static_cast<std::size_t>(step)];
    kernels::AdamW h;
    h.learning_rate = .01f, h.weight_decay = .01f;
    h.bias1 = 1 - std::pow(.9, step + 1), h.bias2 = 1 - std::pow(.999, step + 1);
    kernels::update(*bench, {.rule = h,
                             .gradient = base::View::of(g.data(), {3}),
                             .parameter = base::View::of(p.data(), {3}),
                             .states = {base::View::of(m.data(), {3}), base::View::of(v.data(), {3})}});
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(p[i], want[step][i], 4e-7) << "step " << step + 1 << ", element " << i;
    EXPECT_EQ(g, gradients[static_cast<std::size_t>(step)]);
  }
}

// The same of torch.optim.Adam(lr=0.01, weight_decay=0.1) in float64, with .3 for the gradient .2.
TEST(Adam, FollowsPyTorch) {
  Bench bench(1);
  std::vector<float> p{1, -2, .5f}, m(3), v(3);
  const std::vector<std::vector<float>> gradients{{.1f, .3f, -.3f}, {-.05f, .4f, .1f}};
  const double want[2][3] = {{.990000000500, -2.009999999000, .509999999600},
                             {.981720480743, -2.019657153473, .511886107768}};
  for (int step = 0; step < 2; ++step) {
    auto g = gradients[static_cast<std::size_t>(step)];
    kernels::AdamW h;
    h.learning_rate = .01f, h.weight_decay = .1f, h.decay_in_gradient = true;
    h.bias1 = 1 - std::pow(.9, step + 1), h.bias2 = 1 - std::pow(.999, step + 1);
    kernels::update(*bench, {.rule = h,
                             .gradient = base::View::of(g.data(), {3}),
                             .parameter = base::View::of(p.data(), {3}),
                             .states = {base::View::of(m.data(), {3}), base::View::of(v.data(), {3})}});
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(p[i], want[step][i], 4e-7) << "step " << step + 1 << ", element " << i;
  }
}

// Every operation goes through a volatile, so that nothing is fused, widened or reordered.
float rounded(float x) {
  volatile float r = x;
  return r;
}

void expect_written_sequence(bool decay_in_gradient) {
  for (std::int64_t n : {1, 17, 8192 * 3 + 5}) {
    kernels::AdamW h;
    h.decay_in_gradient = decay_in_gradient;
    h.learning_rate = 3e-4f, h.weight_decay = .1f, h.gradient_scale = .037f, h.bias1 = 1 - std::pow(.9, 7),
    h.bias2 = 1 - std::pow(.999, 7);
    const auto size = static_cast<std::size_t>(n);
    MatrixBuffer p0(DType::f32, 1, n), g0(DType::f32, 1, n), m0(DType::f32, 1, n), v0(DType::f32, 1, n);
    p0.fill(1), g0.fill(2), m0.fill(3), v0.fill(4);
    for (std::int64_t i = 0; i < n; ++i)
      v0.set(0, i, 1e-6 * std::abs(v0(0, i)));  // of the size of s2 g^2, so that every rounding shows
    if (n > 1) g0.set(0, 1, 0), m0.set(0, 1, 0), v0.set(0, 1, 0);
    std::vector<float> p(size), m(size), v(size);
    const float s1 = static_cast<float>(1 - static_cast<double>(h.beta1)),
                s2 = static_cast<float>(1 - static_cast<double>(h.beta2));
    const float c1 = static_cast<float>(1 / h.bias1), c2 = static_cast<float>(1 / h.bias2);
    for (std::size_t i = 0; i < size; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const float decay = rounded(h.weight_decay * static_cast<float>(p0(0, at)));
      float g = rounded(static_cast<float>(g0(0, at)) * h.gradient_scale);
      if (decay_in_gradient) g = rounded(g + decay);
      m[i] = rounded(rounded(h.beta1 * static_cast<float>(m0(0, at))) + rounded(s1 * g));
      v[i] = rounded(rounded(h.beta2 * static_cast<float>(v0(0, at))) + rounded(s2 * rounded(g * g)));
      const float d = rounded(rounded(std::sqrt(rounded(v[i] * c2))) + h.epsilon);
      float u = rounded(rounded(m[i] * c1) / d);
      if (!decay_in_gradient) u = rounded(u + decay);
      p[i] = rounded(static_cast<float>(p0(0, at)) - rounded(h.learning_rate * u));
    }
    on_every_path([&] {
      for (int threads = 1; threads <= 4; ++threads) {
        Bench bench(threads);
        auto pp = p0, gg = g0, mm = m0, vv = v0;
        const auto narrow = threads % 2 == 0 ? DType::bf16 : DType::f16;
        MatrixBuffer working(narrow, 1, n), rounded_once(narrow, 1, n);
        kernels::update(*bench, {.rule = h,
                                 .gradient = gg.view(),
                                 .parameter = pp.view(),
                                 .states = {mm.view(), vv.view()},
                                 .working = working.view()});
        ASSERT_EQ(gg.bytes, g0.bytes);
        for (std::size_t i = 0; i < size; ++i) {
          const auto at = static_cast<std::int64_t>(i);
          ASSERT_EQ(pp(0, at), p[i]) << at;
          ASSERT_EQ(mm(0, at), m[i]) << at;
          ASSERT_EQ(vv(0, at), v[i]) << at;
          rounded_once.set(0, at, p[i]);
          ASSERT_EQ(working(0, at), rounded_once(0, at)) << base::name_of(narrow) << " " << at;
        }
      }
    });
  }
}

TEST(AdamW, IsTheWrittenSequence) { expect_written_sequence(false); }
TEST(Adam, IsTheWrittenSequence) { expect_written_sequence(true); }

TEST(AdamW, RefusesOtherTypesAndSizes) {
  Bench bench(1);
  MatrixBuffer a(DType::f32, 1, 4), b(DType::f32, 1, 5), c(DType::f64, 1, 4);
  EXPECT_ANY_THROW(kernels::update(
      *bench, {.rule = kernels::AdamW{}, .gradient = b.view(), .parameter = a.view(), .states = {a.view(), a.view()}}));
  EXPECT_ANY_THROW(kernels::update(
      *bench, {.rule = kernels::AdamW{}, .gradient = c.view(), .parameter = a.view(), .states = {a.view(), a.view()}}));
  EXPECT_ANY_THROW(kernels::update(*bench, {.rule = kernels::AdamW{},
                                            .gradient = a.view(),
                                            .parameter = a.view(),
                                            .states = {a.view(), a.view()},
                                            .working = a.view()}));
}

}  // namespace adamw_test
}  // namespace trainyard::test

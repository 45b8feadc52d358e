// Compares GELU in both forms and SwiGLU with double formulas: ordinary and extreme values, and outputs that overwrite
// their inputs.
#include "kernels/activation/activation.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace activation_test {

constexpr std::int64_t n = 5, f = 77;

// Values in [-8, 8), and in row 0 the points where exp and tanh saturate.
MatrixBuffer inputs(DType t, std::uint64_t seed, double size = 8) {
  MatrixBuffer x(t, n, f, 3);
  x.fill(seed);
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t c = 0; c < f; ++c) x.set(r, c, size * x(r, c));
  if (size > 1) {
    const double extremes[] = {0, -0.0, 1e-8, -1e-8, 20, -20, 60, -60, 100, -100, 1e4, -1e4};
    for (std::size_t i = 0; i < std::size(extremes); ++i) x.set(0, static_cast<std::int64_t>(i), extremes[i]);
  }
  return x;
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) {
  const double k = std::sqrt(2 / M_PI), th = std::tanh(k * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + th) + 0.5 * x * (1 - th * th) * k * (1 + 3 * 0.044715 * x * x);
}
double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double exact_gelu_slope(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

template <class Want>
void expect_all(DType t, const MatrixBuffer& got, const Want& want, const MatrixBuffer& x, const MatrixBuffer& y) {
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t c = 0; c < f; ++c) {
      // The f32 slope 1 - tanh^2 cancels: its error is as large as the error of x^3.
      const double size = std::abs(x(r, c)),
                   scale = std::max(1.0, std::min(size * size * size, 30.0)) * std::max(1.0, std::abs(y(r, c)));
      ASSERT_TRUE(near(t, got(r, c), want(r, c), scale)) << "at " << r << "," << c << ", x = " << x(r, c);
    }
}

using Formula = double (*)(double);
void check_gelu(kernels::Gelu form, Formula value, Formula slope) {
  sweep(
      [form](tensor::Exec& exec, DType t) {
        auto x = inputs(t, 1), dy = inputs(t, 2, 1);
        MatrixBuffer y(t, n, f, 1), dx(t, n, f, 2);
        kernels::gelu_forward(exec, form, x.view(), y.view());
        kernels::gelu_backward(exec, form, x.view(), dy.view(), dx.view());
        kernels::gelu_backward(exec, form, x.view(), dy.view(), dy.view());
        for (std::int64_t r = 0; r < n; ++r)
          for (std::int64_t c = 0; c < f; ++c) EXPECT_EQ(dx(r, c), dy(r, c)) << "aliased";
        return std::vector{y, dx};
      },
      [value, slope](DType t, const std::vector<MatrixBuffer>& out) {
        const auto x = inputs(t, 1), dy = inputs(t, 2, 1);
        expect_all(
            t, out[0], [&](std::int64_t r, std::int64_t c) { return value(x(r, c)); }, x, x);
        expect_all(
            t, out[1], [&](std::int64_t r, std::int64_t c) { return dy(r, c) * slope(x(r, c)); }, x, dy);
      });
}

TEST(Activation, Gelu) { check_gelu(kernels::Gelu::tanh, gelu, gelu_slope); }
TEST(Activation, ExactGelu) { check_gelu(kernels::Gelu::erf, exact_gelu, exact_gelu_slope); }

// Below 0 the values vanish as fast as the tail of the normal distribution. Their relative error is small, too, at
// every position of a vector.
TEST(Activation, TheTailOfExactGelu) {
  on_every_path([] {
    Bench bench(2);
    MatrixBuffer x(DType::f32, 1, 40001), y(DType::f32, 1, 40001);
    for (std::int64_t c = 0; c < x.cols; ++c) x.set(0, c, -12 + 24.0 * static_cast<double>(c) / 40000);
    kernels::gelu_forward(*bench, kernels::Gelu::erf, x.view(), y.view());
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const double at = x(0, c), want = exact_gelu(at);
      ASSERT_LE(std::abs(y(0, c) - want), (at > -1 ? 6e-7 : 1e-5) * std::abs(want)) << "at " << at;
    }
  });
}

TEST(Activation, Swiglu) {
  sweep(
      [](tensor::Exec& exec, DType t) {
        auto gate = inputs(t, 1), up = inputs(t, 3, 1), dy = inputs(t, 2, 1);
        MatrixBuffer y(t, n, f, 1), dgate(t, n, f, 2), dup(t, n, f);
        kernels::swiglu_forward(exec, gate.view(), up.view(), y.view());
        kernels::swiglu_backward(exec, gate.view(), up.view(), dy.view(), dgate.view(), dup.view());
        kernels::swiglu_backward(exec, gate.view(), up.view(), dy.view(), gate.view(), up.view());
        for (std::int64_t r = 0; r < n; ++r)
          for (std::int64_t c = 0; c < f; ++c) {
            EXPECT_EQ(dgate(r, c), gate(r, c)) << "aliased";
            EXPECT_EQ(dup(r, c), up(r, c)) << "aliased";
          }
        return std::vector{y, dgate, dup};
      },
      [](DType t, const std::vector<MatrixBuffer>& out) {
        const auto gate = inputs(t, 1), up = inputs(t, 3, 1), dy = inputs(t, 2, 1);
        expect_all(
            t, out[0], [&](std::int64_t r, std::int64_t c) { return gate(r, c) * sigmoid(gate(r, c)) * up(r, c); },
            gate, gate);
        expect_all(
            t, out[1],
            [&](std::int64_t r, std::int64_t c) {
              const double g = gate(r, c), s = sigmoid(g);
              return dy(r, c) * up(r, c) * (s + g * s * (1 - s));
            },
            gate, dy);
        expect_all(
            t, out[2], [&](std::int64_t r, std::int64_t c) { return dy(r, c) * gate(r, c) * sigmoid(gate(r, c)); },
            gate, gate);
      });
}

// silu(g) / g is the sigmoid. It shows the relative error of exp at every position of a vector.
TEST(Activation, ExponentialIsAccurateOverItsRange) {
  on_every_path([] {
    Bench bench(2);
    MatrixBuffer gate(DType::f32, 1, 40001), up(DType::f32, 1, 40001), y(DType::f32, 1, 40001);
    for (std::int64_t c = 0; c < gate.cols; ++c)
      gate.set(0, c, -80 + 160.0 * static_cast<double>(c) / 40000), up.set(0, c, 1);
    kernels::swiglu_forward(*bench, gate.view(), up.view(), y.view());
    for (std::int64_t c = 0; c < gate.cols; ++c) {
      const double g = gate(0, c), want = g * sigmoid(g);
      ASSERT_LE(std::abs(y(0, c) - want), 5e-7 * std::abs(want)) << "at " << g;
    }
  });
}

}  // namespace activation_test
}  // namespace trainyard::test

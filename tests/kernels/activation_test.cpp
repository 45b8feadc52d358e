// Compares activations, alone and as gates, with double formulas: ordinary and extreme values, and outputs that
// overwrite their inputs.
#include "kernels/activation/activation.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace activation_test {

constexpr std::int64_t n = 5, width = 77;

// Values in [-8, 8), and in row 0 the points where exp and tanh saturate.
MatrixBuffer inputs(DType t, std::uint64_t seed, double size = 8) {
  MatrixBuffer x(t, n, width, 3);
  x.fill(seed);
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t c = 0; c < width; ++c) x.set(r, c, size * x(r, c));
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
    for (std::int64_t c = 0; c < width; ++c) {
      // The f32 slope 1 - tanh^2 cancels: its error is as large as the error of x^3.
      const double size = std::abs(x(r, c)),
                   scale = std::max(1.0, std::min(size * size * size, 30.0)) * std::max(1.0, std::abs(y(r, c)));
      if (t == DType::f16 && std::abs(want(r, c)) > 65504) {  // of squares
        ASSERT_TRUE(std::isinf(got(r, c)));
        continue;
      }
      ASSERT_TRUE(near(t, got(r, c), want(r, c), scale)) << "at " << r << "," << c << ", x = " << x(r, c);
    }
}

using Formula = double (*)(double);
struct Function {
  kernels::Activation form;
  Formula value, slope;
};
void check_alone(const Function& f) {
  sweep(
      [&f](tensor::Exec& exec, DType t) {
        auto x = inputs(t, 1), dy = inputs(t, 2, 1);
        MatrixBuffer y(t, n, width, 1), dx(t, n, width, 2);
        kernels::activation_forward(exec, f.form, x.view(), y.view());
        kernels::activation_backward(exec, f.form, x.view(), dy.view(), dx.view());
        kernels::activation_backward(exec, f.form, x.view(), dy.view(), dy.view());
        for (std::int64_t r = 0; r < n; ++r)
          for (std::int64_t c = 0; c < width; ++c) EXPECT_EQ(dx(r, c), dy(r, c)) << "aliased";
        return std::vector{y, dx};
      },
      [&f](DType t, const std::vector<MatrixBuffer>& out) {
        const auto x = inputs(t, 1), dy = inputs(t, 2, 1);
        expect_all(
            t, out[0], [&](std::int64_t r, std::int64_t c) { return f.value(x(r, c)); }, x, x);
        expect_all(
            t, out[1], [&](std::int64_t r, std::int64_t c) { return dy(r, c) * f.slope(x(r, c)); }, x, dy);
      });
}

const Function tanh_form{kernels::Activation::gelu_tanh, gelu, gelu_slope};
const Function erf_form{kernels::Activation::gelu_erf, exact_gelu, exact_gelu_slope};

TEST(Activation, Gelu) { check_alone(tanh_form); }
TEST(Activation, ExactGelu) { check_alone(erf_form); }
TEST(Activation, Relu) {
  check_alone(
      {kernels::Activation::relu, [](double x) { return std::max(x, 0.0); }, [](double x) { return x > 0 ? 1.0 : 0; }});
}
// An infinite gradient does not pass where the slope is 0, and a NaN is not hidden.
TEST(Activation, ReluChoosesTheGradient) {
  on_every_path([] {
    Bench bench(1);
    MatrixBuffer x(DType::f32, 1, 3), dy(DType::f32, 1, 3), dx(DType::f32, 1, 3), y(DType::f32, 1, 3);
    x.set(0, 0, -1), x.set(0, 1, 1), x.set(0, 2, NAN);
    for (int c = 0; c < 3; ++c) dy.set(0, c, INFINITY);
    for (const auto form : {kernels::Activation::relu, kernels::Activation::relu_squared}) {
      kernels::activation_forward(*bench, form, x.view(), y.view());
      EXPECT_TRUE(std::isnan(y(0, 2)));
    }
    kernels::activation_backward(*bench, kernels::Activation::relu, x.view(), dy.view(), dx.view());
    EXPECT_EQ(dx(0, 0), 0);
    EXPECT_EQ(dx(0, 1), INFINITY);
  });
}
TEST(Activation, SquaredRelu) {
  check_alone({kernels::Activation::relu_squared, [](double x) { return x > 0 ? x * x : 0; },
               [](double x) { return x > 0 ? 2 * x : 0; }});
}

// Below 0 the values vanish as fast as the tail of the normal distribution. Their relative error is small, too, at
// every position of a vector.
TEST(Activation, TheTailOfExactGelu) {
  on_every_path([] {
    Bench bench(2);
    MatrixBuffer x(DType::f32, 1, 40001), y(DType::f32, 1, 40001);
    for (std::int64_t c = 0; c < x.cols; ++c) x.set(0, c, -12 + 24.0 * static_cast<double>(c) / 40000);
    kernels::activation_forward(*bench, kernels::Activation::gelu_erf, x.view(), y.view());
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const double at = x(0, c), want = exact_gelu(at);
      ASSERT_LE(std::abs(y(0, c) - want), (at > -1 ? 6e-7 : 1e-5) * std::abs(want)) << "at " << at;
    }
  });
}

// f(gate) * up.
void check_gated(const Function& f) {
  sweep(
      [&f](tensor::Exec& exec, DType t) {
        auto gate = inputs(t, 1), up = inputs(t, 3, 1), dy = inputs(t, 2, 1);
        MatrixBuffer y(t, n, width, 1), dgate(t, n, width, 2), dup(t, n, width);
        kernels::gated_forward(exec, f.form, gate.view(), up.view(), y.view());
        const auto backward = [&](MatrixBuffer& to_gate, MatrixBuffer& to_up) {
          kernels::gated_backward(exec, {.form = f.form,
                                         .gate = gate.view(),
                                         .up = up.view(),
                                         .dy = dy.view(),
                                         .dgate = to_gate.view(),
                                         .dup = to_up.view()});
        };
        backward(dgate, dup);
        backward(gate, up);
        for (std::int64_t r = 0; r < n; ++r)
          for (std::int64_t c = 0; c < width; ++c) {
            EXPECT_EQ(dgate(r, c), gate(r, c)) << "aliased";
            EXPECT_EQ(dup(r, c), up(r, c)) << "aliased";
          }
        return std::vector{y, dgate, dup};
      },
      [&f](DType t, const std::vector<MatrixBuffer>& out) {
        const auto gate = inputs(t, 1), up = inputs(t, 3, 1), dy = inputs(t, 2, 1);
        expect_all(
            t, out[0], [&](std::int64_t r, std::int64_t c) { return f.value(gate(r, c)) * up(r, c); }, gate, gate);
        expect_all(
            t, out[1], [&](std::int64_t r, std::int64_t c) { return dy(r, c) * up(r, c) * f.slope(gate(r, c)); }, gate,
            dy);
        expect_all(
            t, out[2], [&](std::int64_t r, std::int64_t c) { return dy(r, c) * f.value(gate(r, c)); }, gate, gate);
      });
}

TEST(Activation, Swiglu) {
  check_gated({kernels::Activation::silu, [](double g) { return g * sigmoid(g); },
               [](double g) { return sigmoid(g) + g * sigmoid(g) * (1 - sigmoid(g)); }});
}
TEST(Activation, Geglu) { check_gated(tanh_form); }
TEST(Activation, ExactGeglu) { check_gated(erf_form); }

// silu(g) / g is the sigmoid. It shows the relative error of exp at every position of a vector.
TEST(Activation, ExponentialIsAccurateOverItsRange) {
  on_every_path([] {
    Bench bench(2);
    MatrixBuffer gate(DType::f32, 1, 40001), up(DType::f32, 1, 40001), y(DType::f32, 1, 40001);
    for (std::int64_t c = 0; c < gate.cols; ++c)
      gate.set(0, c, -80 + 160.0 * static_cast<double>(c) / 40000), up.set(0, c, 1);
    kernels::gated_forward(*bench, kernels::Activation::silu, gate.view(), up.view(), y.view());
    for (std::int64_t c = 0; c < gate.cols; ++c) {
      const double g = gate(0, c), want = g * sigmoid(g);
      ASSERT_LE(std::abs(y(0, c) - want), 5e-7 * std::abs(want)) << "at " << g;
    }
  });
}

}  // namespace activation_test
}  // namespace trainyard::test

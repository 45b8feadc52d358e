// Compares linear layers with plain double sums, with bias, GELU and the three gradients.
#include "kernels/linear/linear.h"
#include "tests/kernels/matrix_buffer.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace linear_test {

constexpr std::int64_t n = 67, in = 21, out = 403;

double bound(DType t, double size, double value) { return rounding(accumulation(t)) * (size + 1) + of_store(t, value); }
double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

TEST(Linear, ForwardAndGelu) {
  on_every_path([] {
    for (auto t : {DType::f32, DType::bf16, DType::f64, DType::f16}) {
      MatrixBuffer x(t, n, in, 2), w(t, out, in), bias(t, 1, out);
      x.fill(1), w.fill(2), bias.fill(3);
      std::vector<char> first, first_exact;
      for (int threads = 1; threads <= 4; ++threads) {
        MatrixBuffer y(t, n, out, 1), pre(t, n, out), z(t, n, out), exact(t, n, out), plain(t, n, out);
        Bench bench(threads);
        kernels::linear_forward(*bench, x.view(), w.view(), bias.view(), y.view());
        kernels::linear_forward(*bench, x.view(), w.view(), {}, plain.view());
        kernels::linear_activation_forward(*bench, {.form = kernels::Activation::gelu_tanh,
                                                    .x = x.view(),
                                                    .weight = w.view(),
                                                    .bias = bias.view(),
                                                    .pre = pre.view(),
                                                    .y = z.view()});
        kernels::linear_activation_forward(*bench, {.form = kernels::Activation::gelu_erf,
                                                    .x = x.view(),
                                                    .weight = w.view(),
                                                    .bias = bias.view(),
                                                    .pre = pre.view(),
                                                    .y = exact.view()});
        if (threads == 1) first = z.bytes, first_exact = exact.bytes;
        ASSERT_EQ(z.bytes, first);
        ASSERT_EQ(exact.bytes, first_exact);
        ASSERT_TRUE(y.gap_untouched());
        for (std::int64_t i = 0; i < n && threads == 1; ++i)
          for (std::int64_t j = 0; j < out; ++j) {
            double sum = 0, size = 0;
            for (std::int64_t p = 0; p < in; ++p) sum += x(i, p) * w(j, p), size += std::abs(x(i, p) * w(j, p));
            ASSERT_LE(std::abs(plain(i, j) - sum), bound(t, size, sum));
            ASSERT_LE(std::abs(y(i, j) - sum - bias(0, j)), bound(t, size, sum + bias(0, j)));
            ASSERT_EQ(pre(i, j), y(i, j));
            ASSERT_LE(std::abs(z(i, j) - gelu(pre(i, j))), bound(t, 1, z(i, j)));
            ASSERT_LE(std::abs(exact(i, j) - exact_gelu(pre(i, j))), bound(t, 1, exact(i, j)));
          }
      }
    }
  });
}

TEST(Linear, Gradients) {
  on_every_path([] {
    for (auto t : {DType::f32, DType::bf16, DType::f64, DType::f16}) {
      MatrixBuffer x(t, n, in), w(t, out, in), dy(t, n, out, 5), start(t, n, in);
      x.fill(1), w.fill(2), dy.fill(4), start.fill(5);
      const auto g = accumulation(t);
      std::vector<char> first_weight, first_bias;
      for (int threads = 1; threads <= 4; ++threads) {
        MatrixBuffer dx(t, n, in), dw(g, out, in), db(g, 1, out);
        auto sum_dx = start;
        Bench bench(threads);
        kernels::linear_backward_input(*bench, dy.view(), w.view(), dx.view());
        if (!base::is_narrow(t)) kernels::linear_backward_input_add(*bench, dy.view(), w.view(), sum_dx.view());
        kernels::linear_backward_weight(*bench, dy.view(), x.view(), dw.view(), db.view());
        if (threads == 1) first_weight = dw.bytes, first_bias = db.bytes;
        ASSERT_EQ(dw.bytes, first_weight);
        ASSERT_EQ(db.bytes, first_bias);
        if (threads > 1) continue;
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < in; ++j) {
            double sum = 0, size = 0;
            for (std::int64_t p = 0; p < out; ++p) sum += dy(i, p) * w(p, j), size += std::abs(dy(i, p) * w(p, j));
            ASSERT_LE(std::abs(dx(i, j) - sum), bound(t, size, sum));
            if (base::is_narrow(t)) continue;
            ASSERT_LE(std::abs(sum_dx(i, j) - sum - start(i, j)), bound(t, size, sum));
          }
        for (std::int64_t o = 0; o < out; ++o) {
          double column = 0;
          for (std::int64_t i = 0; i < n; ++i) column += dy(i, o);
          ASSERT_LE(std::abs(db(0, o) - column), rounding(g) * n);
          for (std::int64_t j = 0; j < in; ++j) {
            double sum = 0;
            for (std::int64_t i = 0; i < n; ++i) sum += dy(i, o) * x(i, j);
            ASSERT_LE(std::abs(dw(o, j) - sum), rounding(g) * n);
          }
        }
      }
    }
  });
}

}  // namespace linear_test
}  // namespace trainyard::test

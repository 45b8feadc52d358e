// Compares rows of experts with scalar replays: the order of sums is part of the contract. Also checks that each
// operation and its gradient are adjoint.
#include "kernels/expert_rows/expert_rows.h"
#include "tests/kernels/sweep.h"

#include <random>

namespace trainyard::test {
namespace expert_rows_test {

// Tokens and choices. Some rows belong to no token. Some choices are dropped: those of token 2 and, for k > 1, the last
// choice of every third token.
struct Routes {
  std::int64_t tokens, k, row_count;
  std::vector<std::int32_t> rows, sources;
  Routes(std::int64_t s, std::int64_t choices, std::uint64_t seed)
      : tokens(s), k(choices), row_count(s * choices + 5), sources(static_cast<std::size_t>(row_count), -1) {
    std::vector<std::int32_t> free;
    for (std::int32_t r = 0; r < row_count; ++r) free.push_back(r);
    std::mt19937_64 random(seed);
    std::shuffle(free.begin(), free.end(), random);
    for (std::int64_t i = 0; i < s * k; ++i) {
      const bool dropped = i / k == 2 || (k > 1 && i / k % 3 == 0 && i % k == k - 1);
      rows.push_back(dropped ? -1 : free[static_cast<std::size_t>(i)]);
      if (!dropped) sources[static_cast<std::size_t>(rows.back())] = static_cast<std::int32_t>(i);
    }
  }
  std::int32_t row(std::int64_t s, std::int64_t j) const { return rows[static_cast<std::size_t>(s * k + j)]; }
  base::View rows_view() { return vector_view(rows, tokens); }
  base::View sources_view() { return base::View::of(sources.data(), {row_count}); }
};

// Rounds as the accumulation dtype does.
double rounded(DType t, double v) { return t == DType::f64 ? v : static_cast<float>(v); }

const std::int64_t widths[] = {1, 7, 64, 300};

TEST(ExpertRows, DispatchCopiesAndItsGradientAddsInTheOrderOfChoices) {
  for (std::int64_t k : {1, 2, 4})
    for (std::int64_t h : widths) {
      Routes routes(11, k, 3);
      sweep(
          [&](tensor::Exec& exec, DType t) {
            MatrixBuffer x(t, 11, h, 2), y(t, routes.row_count, h, 1), add(accumulation(t), 11, h, 3), dx(t, 11, h, 1),
                bare(t, 11, h, 1);
            x.fill(1), add.fill(2);
            kernels::expert_dispatch(exec, x.view(), routes.sources_view(), k, y.view());
            MatrixBuffer dy(t, routes.row_count, h, 1);
            dy.fill(7);
            kernels::expert_dispatch_backward(exec, dy.view(), routes.rows_view(), add.view(), dx.view());
            kernels::expert_dispatch_backward(exec, dy.view(), routes.rows_view(), {}, bare.view());
            return std::vector{y, dx, bare};
          },
          [&](DType t, const std::vector<MatrixBuffer>& out) {
            MatrixBuffer x(t, 11, h), add(accumulation(t), 11, h), dy(t, routes.row_count, h), want(t, 1, 1);
            x.fill(1), add.fill(2), dy.fill(7);
            for (std::int64_t c = 0; c < h; ++c) {
              for (std::int64_t r = 0; r < routes.row_count; ++r) {
                const auto source = routes.sources[static_cast<std::size_t>(r)];
                if (source < 0) ASSERT_TRUE(std::isnan(out[0](r, c))) << "row " << r << " of nobody";
                else ASSERT_EQ(out[0](r, c), x(source / k, c));
              }
              for (std::int64_t s = 0; s < 11; ++s)
                for (int with : {1, 0}) {
                  double sum = with == 1 ? add(s, c) : 0;
                  for (std::int64_t j = 0; j < k; ++j)
                    if (routes.row(s, j) >= 0) sum = rounded(t, sum + dy(routes.row(s, j), c));
                  want.set(0, 0, sum);
                  ASSERT_EQ(out[with == 1 ? 1 : 2](s, c), want(0, 0)) << base::name_of(t) << " " << s << "," << c;
                }
            }
          });
    }
}

TEST(ExpertRows, CombineRoundsEachProductAndSum) {
  for (std::int64_t k : {1, 2, 4})
    for (std::int64_t h : widths) {
      Routes routes(11, k, 4);
      sweep(
          [&](tensor::Exec& exec, DType t) {
            MatrixBuffer y(t, routes.row_count, h, 1), weights(accumulation(t), 11, k, 2), out(t, 11, h, 3);
            y.fill(1), weights.fill(2);
            kernels::expert_combine(exec, y.view(), routes.rows_view(), weights.view(), out.view());
            return std::vector{out};
          },
          [&](DType t, const std::vector<MatrixBuffer>& out) {
            MatrixBuffer y(t, routes.row_count, h), weights(accumulation(t), 11, k), want(t, 1, 1);
            y.fill(1), weights.fill(2);
            for (std::int64_t s = 0; s < 11; ++s)
              for (std::int64_t c = 0; c < h; ++c) {
                double sum = 0;
                for (std::int64_t j = 0; j < k; ++j)
                  if (routes.row(s, j) >= 0) sum = rounded(t, sum + rounded(t, weights(s, j) * y(routes.row(s, j), c)));
                want.set(0, 0, sum);
                ASSERT_EQ(out[0](s, c), want(0, 0)) << base::name_of(t) << " " << s << "," << c;
                ASSERT_TRUE(s != 2 || out[0](s, c) == 0) << "of a token that stands nowhere";
              }
          });
    }
}

TEST(ExpertRows, GradientsOfCombine) {
  for (std::int64_t k : {1, 2, 4})
    for (std::int64_t h : widths) {
      Routes routes(11, k, 5);
      sweep(
          [&](tensor::Exec& exec, DType t) {
            MatrixBuffer dout(t, 11, h, 2), y(t, routes.row_count, h, 1), dy(t, routes.row_count, h, 3),
                weights(accumulation(t), 11, k, 1), slopes(accumulation(t), 11, k, 2), again(accumulation(t), 11, k);
            dout.fill(1), y.fill(2), weights.fill(3);
            kernels::expert_combine_backward(exec, {.dout = dout.view(),
                                                    .y = y.view(),
                                                    .rows = routes.rows_view(),
                                                    .sources = routes.sources_view(),
                                                    .weights = weights.view(),
                                                    .dy = dy.view(),
                                                    .d_weights = slopes.view()});
            kernels::expert_combine_backward(exec, {.dout = dout.view(),
                                                    .y = y.view(),
                                                    .rows = routes.rows_view(),
                                                    .sources = routes.sources_view(),
                                                    .weights = weights.view(),
                                                    .dy = y.view(),
                                                    .d_weights = again.view()});
            return std::vector{dy, slopes, y, again};
          },
          [&](DType t, const std::vector<MatrixBuffer>& out) {
            MatrixBuffer dout(t, 11, h), y(t, routes.row_count, h), weights(accumulation(t), 11, k), want(t, 1, 1);
            dout.fill(1), y.fill(2), weights.fill(3);
            for (std::int64_t r = 0; r < routes.row_count; ++r)
              for (std::int64_t c = 0; c < h; ++c) {
                const auto source = routes.sources[static_cast<std::size_t>(r)];
                if (source < 0) {
                  ASSERT_TRUE(std::isnan(out[0](r, c))) << "row " << r << " of nobody";
                  ASSERT_EQ(out[2](r, c), y(r, c)) << "row " << r << " of nobody";
                  continue;
                }
                want.set(0, 0, rounded(t, weights(source / k, source % k) * dout(source / k, c)));
                ASSERT_EQ(out[0](r, c), want(0, 0)) << base::name_of(t);
                ASSERT_EQ(out[2](r, c), want(0, 0)) << base::name_of(t) << " in place";
              }
            for (std::int64_t s = 0; s < 11; ++s)
              for (std::int64_t j = 0; j < k; ++j) {
                double sum = 0, size = 0;
                for (std::int64_t c = 0; c < h && routes.row(s, j) >= 0; ++c) {
                  sum += dout(s, c) * y(routes.row(s, j), c);
                  size += std::abs(dout(s, c) * y(routes.row(s, j), c));
                }
                ASSERT_TRUE(near(accumulation(t), out[1](s, j), sum, size)) << "token " << s << " choice " << j;
                ASSERT_EQ(out[3](s, j), out[1](s, j)) << "in place";
              }
          });
    }
}

double dot(const MatrixBuffer& a, const MatrixBuffer& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j)
      if (!std::isnan(a(i, j)) && !std::isnan(b(i, j))) sum += a(i, j) * b(i, j);
  return sum;
}

// <A x, d> = <x, A' d>, for the rows and for the weights.
TEST(ExpertRows, GradientsAreAdjoint) {
  const std::int64_t h = 33, k = 3;
  Routes routes(20, k, 9);
  Bench bench(2);
  const auto matrix = [&](std::int64_t n, std::int64_t columns) { return MatrixBuffer(DType::f64, n, columns); };
  auto x = matrix(20, h), y = matrix(routes.row_count, h), d = matrix(routes.row_count, h), dx = matrix(20, h);
  x.fill(1), d.fill(2);
  kernels::expert_dispatch(*bench, x.view(), routes.sources_view(), k, y.view());
  kernels::expert_dispatch_backward(*bench, d.view(), routes.rows_view(), {}, dx.view());
  EXPECT_NEAR(dot(y, d), dot(x, dx), 1e-12);
  auto out = matrix(20, h), dout = matrix(20, h), dy = matrix(routes.row_count, h), weights = matrix(20, k),
       slopes = matrix(20, k);
  y.fill(3), dout.fill(4), weights.fill(5);
  kernels::expert_combine(*bench, y.view(), routes.rows_view(), weights.view(), out.view());
  kernels::expert_combine_backward(*bench, {.dout = dout.view(),
                                            .y = y.view(),
                                            .rows = routes.rows_view(),
                                            .sources = routes.sources_view(),
                                            .weights = weights.view(),
                                            .dy = dy.view(),
                                            .d_weights = slopes.view()});
  EXPECT_NEAR(dot(out, dout), dot(y, dy), 1e-12);
  EXPECT_NEAR(dot(out, dout), dot(weights, slopes), 1e-12);
}

TEST(ExpertRows, NoRowsAtAll) {
  Bench bench(1);
  MatrixBuffer out(DType::bf16, 3, 4), x(DType::bf16, 3, 4);
  x.fill(1);
  std::vector<std::int32_t> nowhere(6, -1);
  MatrixBuffer weights(DType::f32, 3, 2), slopes(DType::f32, 3, 2);
  weights.fill(2);
  const base::View none(nullptr, DType::bf16, {0, 4}), no_sources(nullptr, DType::i32, {0});
  kernels::expert_dispatch(*bench, x.view(), no_sources, 2, none);
  kernels::expert_combine(*bench, none, vector_view(nowhere, 3), weights.view(), out.view());
  kernels::expert_combine_backward(*bench, {.dout = x.view(),
                                            .y = none,
                                            .rows = vector_view(nowhere, 3),
                                            .sources = no_sources,
                                            .weights = weights.view(),
                                            .dy = none,
                                            .d_weights = slopes.view()});
  for (std::int64_t s = 0; s < 3; ++s) {
    for (std::int64_t c = 0; c < 4; ++c) EXPECT_EQ(out(s, c), 0);
    for (std::int64_t j = 0; j < 2; ++j) EXPECT_EQ(slopes(s, j), 0);
  }
}

}  // namespace expert_rows_test
}  // namespace trainyard::test

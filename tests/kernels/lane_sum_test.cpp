// Tests the sum of lanes bit by bit: a tree of neighbours, then the bias, then one rounding.
#include "kernels/lane_sum/lane_sum.h"
#include "tests/kernels/lane_order.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace lane_sum_test {

// Widely spread magnitudes, so that another order gives other bits.
MatrixBuffer pieces(DType t, std::int64_t rows, std::int64_t n) {
  MatrixBuffer p(t, rows, n, 3);
  p.fill(1);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < n; ++i) p.set(r, i, p(r, i) * std::ldexp(1.0, static_cast<int>((r * 5 + i) % 13)));
  return p;
}

std::vector<double> column(const MatrixBuffer& p, std::int64_t i) {
  std::vector<double> v;
  for (std::int64_t r = 0; r < p.rows; ++r) v.push_back(p(r, i));
  return v;
}
double sum(const MatrixBuffer& p, std::int64_t i) {
  return add_lanes(p.dtype, column(p, i), order_of(static_cast<std::size_t>(p.rows)));
}

struct Types {
  DType pieces, bias, out;
};
const Types types[] = {{DType::f32, DType::f32, DType::f32},  {DType::f32, DType::bf16, DType::bf16},
                       {DType::f32, DType::bf16, DType::f32}, {DType::f32, DType::f32, DType::bf16},
                       {DType::f32, DType::f16, DType::f16},  {DType::f32, DType::f16, DType::f32},
                       {DType::f32, DType::f32, DType::f16},  {DType::f64, DType::f64, DType::f64}};

TEST(LaneSum, TreeThenBiasThenOneRounding) {
  on_every_path([] {
    for (const auto& t : types)
      for (std::int64_t rows : {1, 2, 3, 4, 7, 8, 64})
        for (std::int64_t n : {1, 259, 8192 + 300}) {
          auto p = pieces(t.pieces, rows, n);
          MatrixBuffer bias(t.bias, 1, 37);
          bias.fill(2);
          for (int threads : {1, 4}) {
            Bench bench(threads);
            MatrixBuffer with(t.out, 1, n, 2), without(t.out, 1, n, 2);
            kernels::lane_sum(*bench, p.view(), bias.view(), 50, with.view());
            kernels::lane_sum(*bench, p.view(), {}, 50, without.view());
            ASSERT_TRUE(with.gap_untouched() && without.gap_untouched());
            ASSERT_EQ(bench.arena.peak_bytes(), 0);
            for (std::int64_t i = 0; i < n; ++i) {
              MatrixBuffer want(t.out, 1, 2);
              want.set(0, 0, sum(p, i));
              want.set(0, 1, rounded(t.pieces, sum(p, i) + bias(0, (50 + i) % 37)));
              ASSERT_EQ(without(0, i), want(0, 0)) << rows << " rows, element " << i;
              ASSERT_EQ(with(0, i), want(0, 1)) << rows << " rows, element " << i;
            }
          }
        }
  });
}

TEST(LaneSum, IntoRowsWithAPitch) {
  on_every_path([] {
    const std::int64_t m = 70, n = 301;
    auto p = pieces(DType::f32, 4, m * n);
    MatrixBuffer bias(DType::f32, 1, n), out(DType::f32, m, n, 5);
    bias.fill(2);
    Bench bench(3);
    kernels::lane_sum(*bench, p.view(), bias.view(), 0, out.view());
    ASSERT_TRUE(out.gap_untouched());
    for (std::int64_t i = 0; i < m * n; ++i)
      ASSERT_EQ(out(i / n, i % n), rounded(DType::f32, sum(p, i) + bias(0, i % n))) << i;
  });
}

TEST(LaneSum, IntoAnyRowOfThePieces) {
  on_every_path([] {
    for (auto t : {DType::f32, DType::f64})
      for (std::int64_t row : {0, 2, 3}) {
        const std::int64_t n = 600;
        auto p = pieces(t, 4, n);
        const auto before = p;
        Bench bench(2);
        kernels::lane_sum(*bench, p.view(), {}, 0, p.view().row_range(row, 1));
        for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(p(row, i), sum(before, i)) << i;
      }
  });
}

TEST(LaneSum, ALeftFoldGivesOtherBits) {
  const auto p = pieces(DType::f32, 4, 511);
  int different = 0;
  for (std::int64_t i = 0; i < 511; ++i)
    different += sum(p, i) != add_lanes(DType::f32, column(p, i), LaneOrder::left_fold);
  EXPECT_GT(different, 50) << "these values cannot tell orders apart";
}

}  // namespace lane_sum_test
}  // namespace trainyard::test

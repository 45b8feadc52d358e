// Tests the ordered reduction bit by bit: ascending rows, one rounding for each addition.
#include "kernels/ordered_sum/ordered_sum.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace ordered_sum_test {

using base::ReductionRound;

// Widely spread magnitudes, so that another order gives other bits.
MatrixBuffer pieces(DType t, std::int64_t c, std::int64_t n, std::uint64_t seed) {
  MatrixBuffer p(t, c, n, 3);
  p.fill(seed);
  for (std::int64_t r = 0; r < c; ++r)
    for (std::int64_t i = 0; i < n; ++i) p.set(r, i, p(r, i) * std::ldexp(1.0, static_cast<int>((r * 5 + i) % 13)));
  return p;
}

double add(DType t, double a, double b) {
  return t == DType::f64 ? a + b : static_cast<double>(static_cast<float>(a) + static_cast<float>(b));
}

double expected_sum(DType t, const MatrixBuffer& p, std::int64_t i) {
  double sum = p(0, i);
  for (std::int64_t r = 1; r < p.rows; ++r) sum = add(t, sum, p(r, i));
  return sum;
}

template <class Body> void everywhere(const Body& body) {
  on_every_path([&] {
    for (auto t : {DType::f32, DType::f64})
      for (std::int64_t c : {1, 2, 3, 8})
        for (std::int64_t n : {1, 511, 16384 * 2 + 7})
          for (int threads : {1, 4}) {
            Bench bench(threads);
            body(*bench, t, c, n);
          }
  });
}

TEST(OrderedSum, First) {
  everywhere([](tensor::Exec& exec, DType t, std::int64_t c, std::int64_t n) {
    auto p = pieces(t, c, n, 1);
    MatrixBuffer sum(t, 1, n, 2);
    kernels::ordered_sum(exec, p.view(), sum.view(), ReductionRound::first);
    ASSERT_TRUE(sum.gap_untouched());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(sum(0, i), expected_sum(t, p, i)) << c << " pieces, element " << i;
  });
}

// Rows in reverse order in memory, passed one by one.
TEST(OrderedSum, OfPiecesThatLieAnywhere) {
  everywhere([](tensor::Exec& exec, DType t, std::int64_t c, std::int64_t n) {
    auto p = pieces(t, c, n, 1);
    const auto view = p.view();
    const auto row = [&](std::int64_t r) {
      return static_cast<const char*>(view.data) + r * view.pitch * base::size_of(t);
    };
    std::vector<const void*> backwards;
    for (std::int64_t r = c - 1; r >= 0; --r) backwards.push_back(row(r));
    for (const auto round : {ReductionRound::first, ReductionRound::next}) {
      MatrixBuffer sum(t, 1, n, 2);
      sum.fill(3);
      const auto before = sum;
      kernels::ordered_sum(exec, backwards, sum.view(), round);
      ASSERT_TRUE(sum.gap_untouched());
      for (std::int64_t i = 0; i < n; ++i) {
        double want = round == ReductionRound::first ? p(c - 1, i) : add(t, before(0, i), p(c - 1, i));
        for (std::int64_t r = c - 2; r >= 0; --r) want = add(t, want, p(r, i));
        ASSERT_EQ(sum(0, i), want) << c << " pieces, element " << i;
      }
    }
  });
}

TEST(OrderedSum, NextGoesOnFromTheSum) {
  everywhere([](tensor::Exec& exec, DType t, std::int64_t c, std::int64_t n) {
    auto p = pieces(t, c, n, 1), sum = pieces(t, 1, n, 2);
    const auto before = sum;
    kernels::ordered_sum(exec, p.view(), sum.view(), ReductionRound::next);
    for (std::int64_t i = 0; i < n; ++i) {
      double want = before(0, i);
      for (std::int64_t r = 0; r < c; ++r) want = add(t, want, p(r, i));
      ASSERT_EQ(sum(0, i), want) << i;
    }
  });
}

TEST(OrderedSum, IntoAnyRowOfThePieces) {
  everywhere([](tensor::Exec& exec, DType t, std::int64_t c, std::int64_t n) {
    for (std::int64_t row : {std::int64_t{0}, c - 1}) {
      auto p = pieces(t, c, n, 1);
      const auto before = p;
      kernels::ordered_sum(exec, p.view(), p.view().row_range(row, 1), ReductionRound::first);
      for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(p(row, i), expected_sum(t, before, i)) << i;
    }
  });
}

TEST(OrderedSum, AnotherOrderGivesOtherBits) {
  const auto p = pieces(DType::f32, 8, 511, 1);
  int different = 0;
  for (std::int64_t i = 0; i < 511; ++i) {
    double sum = p(7, i);
    for (std::int64_t r = 6; r >= 0; --r) sum = add(DType::f32, sum, p(r, i));
    different += sum != expected_sum(DType::f32, p, i);
  }
  EXPECT_GT(different, 50) << "these values cannot tell orders apart";
}

}  // namespace ordered_sum_test
}  // namespace trainyard::test

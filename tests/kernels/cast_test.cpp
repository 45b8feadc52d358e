// Compares casts with the exact neighbours; also copy, fill and add, on dense and pitched views.
#include "kernels/cast/cast.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace {

// The nearest value with `bits` significant bits and least exponent `least`, ties to even, by exact scaling in double.
double nearest(double x, int bits, int least) {
  if (x == 0 || !std::isfinite(x)) return x;
  int e;
  std::frexp(x, &e);
  const int unit = std::max(e - bits, least);
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}
double in_type(DType t, double x) {
  if (t == DType::f64) return x;
  const double r = t == DType::f32 ? nearest(x, 24, -149) : nearest(x, 8, -133);
  const double largest = t == DType::f32 ? 0x1.fffffep127 : 0x1.fep127;
  return std::abs(r) > largest ? std::copysign(INFINITY, x) : r;
}

MatrixBuffer source(DType t, std::int64_t gap) {
  MatrixBuffer x(t, 3, 16384 + 37, gap);
  x.fill(9);
  // Ties, near-ties that rounding by way of f32 would turn into ties, overflow, subnormals, signs.
  const double special[] = {0,
                            -0.0,
                            1 + 0x1p-8,
                            1 + 3 * 0x1p-8,
                            -1 - 0x1p-8,
                            1 + 0x1p-8 + 0x1p-40,
                            1 + 3 * 0x1p-8 - 0x1p-40,
                            -(1 + 0x1p-8 + 0x1p-50),
                            1 + 0x1p-24,
                            1 + 0x1p-24 + 0x1p-50,
                            3.3e38,
                            3.4e38,
                            3.5e38,
                            -1e300,
                            1e-300,
                            0x1p-149,
                            0x1p-134,
                            0x1p-134 + 0x1p-170,
                            0x1.8p-133,
                            0x1.01p-126,
                            INFINITY,
                            -INFINITY};
  for (std::size_t i = 0; i < std::size(special); ++i) x.set(1, static_cast<std::int64_t>(i), special[i]);
  return x;
}

TEST(Cast, EveryPairRoundsOnceToTheNearest) {
  on_every_path([] {
    for (auto from : working_types)
      for (auto to : working_types)
        for (std::int64_t gap : {0, 3})
          for (int threads : {1, 4}) {
            Bench bench(threads);
            auto x = source(from, gap);
            MatrixBuffer y(to, x.rows, x.cols, gap);
            kernels::cast(*bench, x.view(), y.view());
            ASSERT_TRUE(y.gap_untouched());
            for (std::int64_t r = 0; r < x.rows; ++r)
              for (std::int64_t c = 0; c < x.cols; ++c) {
                const double want = in_type(to, x(r, c));
                ASSERT_EQ(y(r, c), want) << base::name_of(from) << " to " << base::name_of(to) << " of "
                                         << fmt::format("{:a}", x(r, c));
                ASSERT_EQ(std::signbit(y(r, c)), std::signbit(x(r, c)));
              }
          }
  });
}

TEST(Cast, NanStaysNan) {
  on_every_path([] {
    for (auto from : working_types)
      for (auto to : working_types) {
        Bench bench(1);
        MatrixBuffer x(from, 1, 33), y(to, 1, 33);
        y.fill(1);
        kernels::cast(*bench, x.view(), y.view());
        for (std::int64_t c = 0; c < 33; ++c) ASSERT_TRUE(std::isnan(y(0, c)));
      }
  });
}

TEST(Cast, CopyFillAdd) {
  sweep(
      [](tensor::Exec& exec, DType t) {
        MatrixBuffer x(t, 7, 41, 1), copied(t, 7, 41, 2), filled(t, 7, 41, 3), dense(t, 7, 41), sum(t, 7, 41, 4);
        x.fill(1), sum.fill(2);
        kernels::copy(exec, x.view(), copied.view());
        kernels::fill(exec, filled.view(), 0.1);
        kernels::fill(exec, dense.view(), -3);
        kernels::add(exec, sum.view(), x.view());
        return std::vector{copied, filled, dense, sum};
      },
      [](DType t, const std::vector<MatrixBuffer>& out) {
        MatrixBuffer x(t, 7, 41), y(t, 7, 41);
        x.fill(1), y.fill(2);
        for (std::int64_t r = 0; r < 7; ++r)
          for (std::int64_t c = 0; c < 41; ++c) {
            ASSERT_EQ(out[0](r, c), x(r, c));
            ASSERT_EQ(out[1](r, c), in_type(t, 0.1));
            ASSERT_EQ(out[2](r, c), -3);
            ASSERT_EQ(out[3](r, c), in_type(t, in_type(t == DType::f64 ? t : DType::f32, y(r, c) + x(r, c))));
          }
      });
}

TEST(Cast, RefusesShapesAndTypesThatDoNotMeet) {
  Bench bench(1);
  MatrixBuffer a(DType::f32, 2, 3), b(DType::f32, 3, 2), c(DType::f64, 2, 3);
  EXPECT_ANY_THROW(kernels::cast(*bench, a.view(), b.view()));
  EXPECT_ANY_THROW(kernels::copy(*bench, a.view(), c.view()));
  EXPECT_ANY_THROW(kernels::add(*bench, a.view(), c.view()));
}

}  // namespace
}  // namespace trainyard::test

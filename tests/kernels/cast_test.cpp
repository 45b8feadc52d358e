// Compares casts with the exact neighbours; also copy, fill and add, on dense and pitched views.
#include "kernels/cast/cast.h"
#include "tests/kernels/sweep.h"

namespace trainyard::test {
namespace cast_test {

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
  const double r = t == DType::f32    ? nearest(x, 24, -149)
                   : t == DType::bf16 ? nearest(x, 8, -133)
                                      : nearest(x, 11, -24);
  const double largest = t == DType::f32 ? 0x1.fffffep127 : t == DType::bf16 ? 0x1.fep127 : 65504;
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
                            1 + 0x1p-11,
                            1 + 3 * 0x1p-11,
                            1 + 0x1p-11 + 0x1p-40,
                            1 + 3 * 0x1p-11 - 0x1p-40,
                            65504,
                            -65519.9,
                            65520 - 0x1p-30,
                            65520,
                            65536,
                            0x1p-14,
                            0x1p-14 - 0x1p-25,
                            0x1p-24,
                            -0x1p-25,
                            0x1p-25 + 0x1p-70,
                            3 * 0x1p-25,
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

TEST(Cast, RoundsToBf16InPlace) {
  on_every_path([] {
    for (std::int64_t gap : {0, 3})
      for (int threads : {1, 4}) {
        Bench bench(threads);
        const auto x = source(DType::f32, gap);
        auto y = source(DType::f32, gap);
        y.set(2, 5, NAN);
        kernels::round_to_bf16(*bench, y.view());
        ASSERT_TRUE(y.gap_untouched());
        ASSERT_TRUE(std::isnan(y(2, 5)));
        for (std::int64_t r = 0; r < x.rows; ++r)
          for (std::int64_t c = 0; c < x.cols; ++c) {
            if (r == 2 && c == 5) continue;
            ASSERT_EQ(y(r, c), in_type(DType::bf16, x(r, c))) << fmt::format("{:a}", x(r, c));
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

// Every f16, what lies halfway between two of them, and the f32 neighbours of both: to f32, bf16 and f64, and from f32
// and f64. All paths have the same bits, also of NaN.
TEST(Cast, EveryF16AndEveryHalfway) {
  MatrixBuffer halves(DType::f16, 1, 65536), around(DType::f32, 1, 3 * 65536);
  for (std::int64_t i = 0; i < halves.cols; ++i)
    reinterpret_cast<std::uint16_t*>(halves.bytes.data())[i] = static_cast<std::uint16_t>(i);
  const auto exact = [](std::int64_t i) {  // by the definition: sign, exponent, significand
    const auto exponent = static_cast<int>(i >> 10 & 31), digits = static_cast<int>(i & 1023);
    const double size = exponent == 31  ? (digits == 0 ? INFINITY : NAN)
                        : exponent == 0 ? std::ldexp(digits, -24)
                                        : std::ldexp(1024 + digits, exponent - 25);
    return i >= 32768 ? -size : size;
  };
  for (std::int64_t i = 0; i < halves.cols; ++i) {
    const auto next = (i & 0x7fff) < 0x7c00 ? exact(i + 1) : exact(i);
    const auto middle =
        std::isinf(next) && (i & 0x7fff) == 0x7bff ? std::copysign(65520, exact(i)) : exact(i) + (next - exact(i)) / 2;
    const auto at = static_cast<float>(std::isinf(exact(i)) ? exact(i) : middle);
    around.set(0, 3 * i, std::nextafter(at, -INFINITY));
    around.set(0, 3 * i + 1, at);
    around.set(0, 3 * i + 2, std::nextafter(at, INFINITY));
  }
  std::vector<std::vector<char>> first;
  on_every_path([&] {
    std::vector<std::vector<char>> results;
    const auto same = [&](MatrixBuffer& x, DType to, const auto& value) {
      Bench bench(3);
      MatrixBuffer y(to, 1, x.cols);
      kernels::cast(*bench, x.view(), y.view());
      for (std::int64_t i = 0; i < x.cols; ++i) {
        const double want = in_type(to, value(i));
        ASSERT_TRUE(std::isnan(want) ? std::isnan(y(0, i))
                                     : y(0, i) == want && std::signbit(y(0, i)) == std::signbit(want))
            << base::name_of(x.dtype) << " to " << base::name_of(to) << " of " << fmt::format("{:a}", value(i)) << ": "
            << fmt::format("{:a}", y(0, i));
      }
      results.push_back(y.bytes);
    };
    for (const auto to : {DType::f32, DType::bf16, DType::f64}) same(halves, to, exact);
    same(around, DType::f16, [&](std::int64_t i) { return around(0, i); });
    MatrixBuffer doubles(DType::f64, 1, around.cols);
    for (std::int64_t i = 0; i < around.cols; ++i) doubles.set(0, i, around(0, i));
    same(doubles, DType::f16, [&](std::int64_t i) { return around(0, i); });
    if (first.empty()) first = results;
    EXPECT_TRUE(results == first) << "bits of " << kernels::name_of(kernels::active_isa());
  });
}

// A row that ends anywhere, since instructions take eight elements at a time.
TEST(Cast, F16RowsOfEveryLength) {
  on_every_path([] {
    for (std::int64_t n = 1; n < 20; ++n) {
      Bench bench(1);
      MatrixBuffer x(DType::f32, 3, n, 2), narrow(DType::f16, 3, n, 1), back(DType::f32, 3, n, 5);
      x.fill(static_cast<std::uint64_t>(n));
      kernels::cast(*bench, x.view(), narrow.view());
      kernels::cast(*bench, narrow.view(), back.view());
      ASSERT_TRUE(narrow.gap_untouched() && back.gap_untouched());
      for (std::int64_t r = 0; r < 3; ++r)
        for (std::int64_t c = 0; c < n; ++c) ASSERT_EQ(back(r, c), in_type(DType::f16, x(r, c)));
    }
  });
}

TEST(Cast, CopyAndFillTakeF16) {
  Bench bench(2);
  MatrixBuffer x(DType::f16, 7, 41, 1), copied(DType::f16, 7, 41, 2), filled(DType::f16, 7, 41, 3);
  x.fill(1);
  kernels::copy(*bench, x.view(), copied.view());
  kernels::fill(*bench, filled.view(), 0.1);
  ASSERT_TRUE(copied.gap_untouched() && filled.gap_untouched());
  for (std::int64_t r = 0; r < 7; ++r)
    for (std::int64_t c = 0; c < 41; ++c) {
      ASSERT_EQ(copied(r, c), x(r, c));
      ASSERT_EQ(filled(r, c), in_type(DType::f16, 0.1));
    }
}

TEST(Cast, CopyFillAddScale) {
  sweep(
      [](tensor::Exec& exec, DType t) {
        MatrixBuffer x(t, 7, 41, 1), copied(t, 7, 41, 2), filled(t, 7, 41, 3), dense(t, 7, 41), sum(t, 7, 41, 4),
            scaled(t, 7, 41, 2);
        x.fill(1), sum.fill(2), scaled.fill(2);
        kernels::copy(exec, x.view(), copied.view());
        kernels::fill(exec, filled.view(), 0.1);
        kernels::fill(exec, dense.view(), -3);
        kernels::add(exec, sum.view(), x.view());
        kernels::scale(exec, scaled.view(), 1.7);
        return std::vector{copied, filled, dense, sum, scaled};
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
            const auto wide = t == DType::f64 ? t : DType::f32;
            ASSERT_EQ(out[4](r, c), in_type(t, in_type(wide, y(r, c) * in_type(wide, 1.7))));
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

}  // namespace cast_test
}  // namespace trainyard::test

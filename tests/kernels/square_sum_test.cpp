// Tests the exact sum of squares over the whole range of f32: against integers of 640 bits, in any order and division.
#include "kernels/square_sum/square_sum.h"
#include "tests/kernels/sweep.h"

#include <array>
#include <cfloat>

namespace trainyard::test {
namespace square_sum_test {

using kernels::FixedPointSum;

FixedPointSum sum_of(std::vector<float> x, int threads = 1) {
  Bench bench(threads);
  FixedPointSum sum;
  kernels::square_sum(*bench, base::View::of(x.data(), {static_cast<std::int64_t>(x.size())}), sum);
  return sum;
}

// The bits of value * 2^320, one per element: slow, plain, independent.
struct Bits {
  std::array<std::uint8_t, 680> bit{};
  void add(double square) {
    int exponent;
    auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(square, &exponent), 53));
    for (int at = exponent - 53 + 320; mantissa != 0; ++at, mantissa >>= 1)
      for (int k = at; mantissa & 1; ++k)
        if (bit[static_cast<std::size_t>(k)] ^= 1; bit[static_cast<std::size_t>(k)]) break;
  }
};
Bits digits_of(const FixedPointSum& sum) {
  Bits b;
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    const auto total = sum.limbs[i] + carry;
    for (std::size_t k = 0; k < 32; ++k) b.bit[i * 32 + k] = (total >> k) & 1;
    carry = total >> 32;
  }
  EXPECT_EQ(carry, 0);
  return b;
}

// Kinds of magnitudes: below 1, everything, below 1 with single outliers, up to 2^16, and from 2^-9 to 1.
std::vector<float> values(int kind, std::size_t n) {
  std::vector<float> x(n);
  std::uint64_t s = 88172645463325252ull;
  for (std::size_t i = 0; i < n; ++i) {
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    const double unit = static_cast<double>(s >> 11) * 0x1p-52 - 1;
    const int exponent = kind == 1 || (kind == 2 && i % 1000 == 7) ? static_cast<int>(s % 250) - 130
                         : kind == 3                               ? static_cast<int>(s % 56) - 39
                                                                   : -static_cast<int>(s % 20);
    x[i] = static_cast<float>(std::ldexp(kind == 4 ? std::copysign((1 + std::abs(unit)) / 2, unit) : unit,
                                         kind == 4 ? -static_cast<int>(s % 9) : exponent));
    if (s % 97 == 0) x[i] = 0;
  }
  return x;
}

TEST(SquareSum, EqualsAPlainBigInteger) {
  on_every_path([] {
    for (int kind : {0, 1, 2, 3, 4})
      for (std::size_t n : {1u, 7u, 4096u, 4096u * 6 + 13}) {
        const auto x = values(kind, n);
        Bits want;
        for (float v : x)
          if (v != 0) want.add(static_cast<double>(v) * v);
        ASSERT_EQ(digits_of(sum_of(x)).bit, want.bit) << "kind " << kind << ", " << n << " values";
      }
  });
}

TEST(SquareSum, NoThreadCountOrderOrCutMatters) {
  on_every_path([] {
    for (int kind : {0, 1, 2, 3, 4}) {
      auto x = values(kind, 50001);
      const auto whole = kernels::value(sum_of(x));
      for (int threads = 2; threads <= 4; ++threads)
        ASSERT_EQ(digits_of(sum_of(x, threads)).bit, digits_of(sum_of(x)).bit);
      std::reverse(x.begin(), x.end());
      ASSERT_EQ(kernels::value(sum_of(x)), whole);
      FixedPointSum parts;
      for (std::size_t at = 0; at < x.size();) {
        const auto n = std::min<std::size_t>(x.size() - at, 1 + at % 7777);
        const auto part =
            sum_of({x.begin() + static_cast<std::ptrdiff_t>(at), x.begin() + static_cast<std::ptrdiff_t>(at + n)});
        for (std::size_t k = 0; k < parts.limbs.size(); ++k) parts.limbs[k] += part.limbs[k];
        at += n;
      }
      ASSERT_EQ(kernels::value(parts), whole);
    }
  });
}

TEST(SquareSum, ValueIsTheSum) {
  EXPECT_EQ(kernels::value(sum_of({})), 0);
  EXPECT_EQ(kernels::value(sum_of({3, 4})), 25);
  EXPECT_EQ(kernels::value(sum_of({FLT_TRUE_MIN})), 0x1p-298);
  EXPECT_EQ(kernels::value(sum_of({FLT_MAX})), static_cast<double>(FLT_MAX) * FLT_MAX);
  EXPECT_EQ(kernels::value(sum_of({0x1p-26f, 1, 0x1p-26f})), 1 + 0x1p-51);
  long double plain = 0;
  const auto x = values(0, 20000);
  for (float v : x) plain += static_cast<long double>(v) * v;
  EXPECT_NEAR(kernels::value(sum_of(x)) / static_cast<double>(plain), 1, 4e-16);
}

TEST(SquareSum, WhatIsNotFiniteShows) {
  for (float bad : {INFINITY, -INFINITY, NAN})
    for (std::size_t place : {0u, 5u, 4999u}) {
      auto x = values(0, 5000);
      x[place] = bad;
      on_every_path([&] { EXPECT_TRUE(std::isnan(kernels::value(sum_of(x)))) << bad << " at " << place; });
    }
}

// 2^20 ranks, each with the largest square: the limbs are summed as 64-bit integers.
TEST(SquareSum, AMillionRanksDoNotOverflow) {
  auto sum = sum_of(std::vector<float>(4096, 0.99999994f));
  for (auto& limb : sum.limbs) {
    ASSERT_LT(limb, std::int64_t{1} << 32);
    limb *= 1 << 20;
  }
  EXPECT_NEAR(kernels::value(sum), 4096.0 * 1048576 * 0.99999994 * 0.99999994, 1e2);
}

}  // namespace square_sum_test
}  // namespace trainyard::test

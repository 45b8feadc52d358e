// Adds squares of f32 to the digits of an exact sum: squares in double, split into digits. Blocks whose values lie in
// the common range need two to four digits, which vectorised products extract. Included only by *_cpu.cpp, once per
// instruction set.
#pragma once

#include "kernels/cpu.h"
#include "kernels/square_sum/fixed_point.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;
constexpr int square_digits = square_sum_limbs - 1;

// Any finite square: shifts the mantissa to its digit.
inline void add_slowly(double square, int64_t* limbs) {
  std::uint64_t u;
  __builtin_memcpy(&u, &square, 8);
  const int exponent =
      static_cast<int>(u >> 52) - 1075;  // value = mantissa * 2^exponent; squares are never subnormal doubles
  std::uint64_t mantissa = (u & 0xfffffffffffffull) | 0x10000000000000ull;
  int position = exponent + 320;
  if (position < 0) {  // squares of subnormals: no bit lies below 2^-298, so the shift is exact
    mantissa >>= -position;
    position = 0;
  }
  const int digit = position / 32, shift = position % 32;
  const unsigned __int128 wide = static_cast<unsigned __int128>(mantissa) << shift;
  limbs[digit] += static_cast<int64_t>(static_cast<std::uint64_t>(wide) & 0xffffffffu);
  limbs[digit + 1] += static_cast<int64_t>(static_cast<std::uint64_t>(wide >> 32) & 0xffffffffu);
  limbs[digit + 2] += static_cast<int64_t>(static_cast<std::uint64_t>(wide >> 64) & 0xffffffffu);
}

// Bits of a digit, and the most that the highest digit may have. A sum of 256 digits is then exact in double.
constexpr int digit_bits = 40, most_bits = 45;

// Adds total * 2^position, in units of 2^-320.
inline void add_total(int64_t total, int position, int64_t* limbs) {
  const int digit = position / 32;
  const __int128 wide = static_cast<__int128>(total) << position % 32;
  limbs[digit] += static_cast<int64_t>(static_cast<std::uint64_t>(wide) & 0xffffffffu);
  limbs[digit + 1] += static_cast<int64_t>(static_cast<std::uint64_t>(wide >> 32) & 0xffffffffu);
  limbs[digit + 2] += static_cast<int64_t>(wide >> 64);
}

constexpr int square_lanes = 16;

// Of 2^16, as bits of f32: magnitudes from here on have no common digits.
constexpr std::uint32_t unbounded_magnitude = 0x47800000u;

// The digits that hold squares: each is a multiple of 2^low and less than 2^(low + (count - 1) * digit_bits +
// most_bits). count is 0 where no four digits do.
struct SquareDigits {
  int low = 0, count = 0;
  // Of values below 2^16 and, except for zeros, at least 2^-40. The magnitudes are bits of f32, `least` of those that
  // are not zero; unbounded_magnitude if there is none.
  SquareDigits(std::uint32_t most, std::uint32_t least) {
    if (most >= unbounded_magnitude || least < 0x2b800000u) return;
    // A value of exponent e is a multiple of 2^(e - 23) and less than 2^(e + 1).
    low = 2 * (static_cast<int>(least >> 23) - 127 - 23);
    const int width = 2 * (static_cast<int>(most >> 23) - 127 + 1) - low;
    count = width <= most_bits + digit_bits ? 2 : width <= most_bits + 2 * digit_bits ? 3 : 4;
  }
};
template <int count> inline double scale_to_digits(int low) {  // 2^-(low + (count - 1) * digit_bits)
  const std::uint64_t bits = static_cast<std::uint64_t>(1023 - low - (count - 1) * digit_bits) << 52;
  double scale;
  __builtin_memcpy(&scale, &bits, 8);
  return scale;
}

// Adds the digits of the squares of 16 values to sums of each lane. A digit is the whole number nearest to the rest, so
// it may be negative. Each product by a power of two, each difference and each sum of up to 256 digits is exact.
template <int count>
[[gnu::always_inline]] inline void add_lanes(const float* x, double scale, double (*sums)[square_lanes]) {
  double rest[square_lanes];
#pragma omp simd
  for (int l = 0; l < square_lanes; ++l) {
    const double v = x[l];
    rest[l] = v * v * scale;
  }
#pragma GCC unroll 4
  for (int k = count - 1; k > 0; --k) {
#pragma omp simd
    for (int l = 0; l < square_lanes; ++l) {
      const double digit = (rest[l] + 0x1.8p52) - 0x1.8p52;
      sums[k][l] += digit;
      rest[l] = (rest[l] - digit) * static_cast<double>(int64_t{1} << digit_bits);
    }
  }
#pragma omp simd
  for (int l = 0; l < square_lanes; ++l) sums[0][l] += rest[l];
}

// Adds the squares of n values, at most 4096 and a multiple of 16.
template <int count> void add_digits(const float* x, int64_t n, int low, int64_t* limbs) {
  double sums[count][square_lanes] = {};
  const double scale = scale_to_digits<count>(low);
  for (int64_t i = 0; i < n; i += square_lanes) add_lanes<count>(x + i, scale, sums);
  for (int k = 0; k < count; ++k) {
    int64_t total = 0;
    for (int l = 0; l < square_lanes; ++l) total += static_cast<int64_t>(sums[k][l]);
    add_total(total, low + k * digit_bits + 320, limbs);
  }
}

// Adds the squares of at most 4096 values. If all are below 2^16 and, except for zeros, at least 2^-40, it uses as few
// digits as hold their squares.
inline void add_square_block(const float* x, int64_t n, int64_t* limbs) {
  // Magnitudes compare as their bits do; NaN and infinity are the largest.
  std::uint32_t most = 0, least = unbounded_magnitude;
#pragma omp simd reduction(max : most) reduction(min : least)
  for (int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = float_to_bits(x[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
    const std::uint32_t nonzero = bits == 0 ? unbounded_magnitude : bits;
    least = nonzero < least ? nonzero : least;
  }
  if (most == 0) return;
  if (const SquareDigits digits(most, least); digits.count > 0) {
    const int64_t whole = n / square_lanes * square_lanes;
    if (digits.count == 2) add_digits<2>(x, whole, digits.low, limbs);
    else if (digits.count == 3) add_digits<3>(x, whole, digits.low, limbs);
    else add_digits<4>(x, whole, digits.low, limbs);
    x += whole;
    n -= whole;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double v = x[i];
    if (!(v - v == 0)) limbs[square_digits] += 1;
    else if (v != 0) add_slowly(v * v, limbs);
  }
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

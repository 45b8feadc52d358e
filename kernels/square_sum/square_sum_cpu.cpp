// Squares in double, cut into digits. Blocks whose values lie in the common range take three digits by multiplication,
// vectorised.
#include "kernels/square_sum/square_sum_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;
constexpr int digits = square_sum_limbs - 1;

// Any finite square: mantissa shifted to its digit.
void add_slowly(double square, int64_t* limbs) {
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

// A square x that is 0 or at least 2^-80, and below 2^32, has no bits below 2^-128: digits 6 to 10 hold it. Each
// product by a power of two and each difference is exact.
void add_block(const float* x, int64_t n, int64_t* limbs) {
  // Magnitudes compare as their bits do; NaN and infinity are the largest.
  std::uint32_t most = 0, least = 0x47800000u;
#pragma omp simd reduction(max : most) reduction(min : least)
  for (int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = float_to_bits(x[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
    const std::uint32_t nonzero = bits == 0 ? 0x47800000u : bits;
    least = nonzero < least ? nonzero : least;
  }
  if (most < 0x47800000u && least >= 0x2b800000u) {  // all below 2^16, and 2^-40 or more, or zero
    // Digits are whole numbers below 2^32 and a block has few of them: their sums are exact in double as well.
    constexpr int width = 16;
    double sums[5][width] = {};
    int64_t i = 0;
    for (; i + width <= n; i += width) {
      double rest[width];
#pragma omp simd
      for (int l = 0; l < width; ++l) {
        const double v = x[i + l];
        rest[l] = v * v;
      }
#pragma GCC unroll 5
      for (int k = 4; k >= 0; --k) {
#pragma omp simd
        for (int l = 0; l < width; ++l) {
          const double nearest = (rest[l] + 0x1p52) - 0x1p52;  // a whole number next to rest, which lies in [0, 2^32)
          const double digit = nearest > rest[l] ? nearest - 1.0 : nearest;
          sums[k][l] += digit;
          rest[l] = (rest[l] - digit) * 0x1p32;
        }
      }
    }
    for (int k = 0; k < 5; ++k)
      for (int l = 0; l < width; ++l) limbs[6 + k] += static_cast<int64_t>(sums[k][l]);
    x += i;
    n -= i;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double v = x[i];
    if (!(v - v == 0)) limbs[digits] += 1;
    else if (v != 0) add_slowly(v * v, limbs);
  }
}

}  // namespace

void square_sum_cpu(const float* x, int64_t n, int64_t* limbs, int threads) {
  constexpr int64_t block = 4096;
  const int64_t blocks = (n + block - 1) / block;
#pragma omp parallel num_threads(threads) if (blocks > 4)
  {
    int64_t own[square_sum_limbs] = {};
#pragma omp for schedule(static) nowait
    for (int64_t b = 0; b < blocks; ++b) add_block(x + b * block, (b + 1) * block < n ? block : n - b * block, own);
    for (int k = 0; k < square_sum_limbs; ++k) {
#pragma omp atomic  // integers: any order gives the same sum
      limbs[k] += own[k];
    }
  }
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

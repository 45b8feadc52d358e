// Squares in double, cut into digits. Blocks whose values lie in the common range take three digits by multiplication, vectorised.
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
  const int exponent = static_cast<int>(u >> 52) - 1075;               // value = mantissa * 2^exponent; squares are never subnormal doubles
  const std::uint64_t mantissa = (u & 0xfffffffffffffull) | 0x10000000000000ull;
  const int position = exponent + 320, digit = position / 32, shift = position % 32;
  const unsigned __int128 wide = static_cast<unsigned __int128>(mantissa) << shift;
  limbs[digit] += static_cast<int64_t>(static_cast<std::uint64_t>(wide) & 0xffffffffu);
  limbs[digit + 1] += static_cast<int64_t>(static_cast<std::uint64_t>(wide >> 32) & 0xffffffffu);
  limbs[digit + 2] += static_cast<int64_t>(static_cast<std::uint64_t>(wide >> 64) & 0xffffffffu);
}

// Digits 5 to 9 cover 2^-160 .. 2^0 (exclusive). A square x with 2^-80 <= x < 1, or 0, has no bits below 2^-128: digits 6 to 9 hold it. Each product by a
// power of two and each truncation is exact.
void add_block(const float* x, int64_t n, int64_t* limbs) {
  float most = 0, least = 1;
  for (int64_t i = 0; i < n; ++i) {
    const float m = x[i] < 0 ? -x[i] : x[i];
    most = m > most || m != m ? m : most;
    const float nonzero = m == 0 ? 1.0f : m;
    least = nonzero < least ? nonzero : least;
  }
  if (most < 1.0f && least >= 0x1p-40f) {
    constexpr int width = 8;
    int64_t d[4][width] = {};
    int64_t i = 0;
    for (; i + width <= n; i += width)
      for (int l = 0; l < width; ++l) {
        const double v = x[i + l];
        double rest = v * v * 0x1p32;
        for (int k = 3; k >= 0; --k) {
          const auto digit = static_cast<int64_t>(rest);
          d[k][l] += digit;
          rest = (rest - static_cast<double>(digit)) * 0x1p32;
        }
      }
    for (int k = 0; k < 4; ++k)
      for (int l = 0; l < width; ++l) limbs[6 + k] += d[k][l];
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
#pragma omp critical(trainyard_square_sum)
    for (int k = 0; k < square_sum_limbs; ++k) limbs[k] += own[k];
  }
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

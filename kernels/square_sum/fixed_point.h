// Arithmetic on the digits of an exact sum of squares, the same on the host and on a GPU.
#pragma once

#include "kernels/mat.h"

#include <cmath>
#include <cstdint>

namespace trainyard::kernels {

inline constexpr int square_sum_limbs = 21;  // 20 digits of 32 bits, and the count of values that are not finite

// Carries, so that every digit but the highest is below 2^32; the value stays the same.
TRAINYARD_ANYWHERE inline void carry_digits(std::int64_t* limbs) {
  for (int i = 0; i + 2 < square_sum_limbs; ++i) {
    limbs[i + 1] += limbs[i] >> 32;
    limbs[i] &= 0xffffffff;
  }
}

// The value within one unit in the last place, or NaN if any value was not finite. Equal sums give equal results. The
// digits need not be carried.
TRAINYARD_ANYWHERE inline double value_of_digits(const std::int64_t* limbs) {
  constexpr int digits = square_sum_limbs - 1;
  if (limbs[digits] != 0) return nan("");
  std::int64_t d[digits], carry = 0;
  for (int i = 0; i < digits; ++i) {
    const std::int64_t total = limbs[i] + carry;
    d[i] = total & 0xffffffff;
    carry = total >> 32;
  }
  // Added from the highest digit, in a fixed order. A product by a power of two is exact, so fusing it with the
  // addition changes nothing.
  double out = ldexp(static_cast<double>(carry), 32 * digits - 320);
  for (int i = digits - 1; i >= 0; --i) out += ldexp(static_cast<double>(d[i]), 32 * i - 320);
  return out;
}

}  // namespace trainyard::kernels

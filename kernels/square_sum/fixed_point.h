// Arithmetic on the digits of an exact sum of squares, the same on the host and on a GPU.
#pragma once

#include "kernels/mat.h"

#include <cmath>
#include <cstdint>

namespace trainyard::kernels {

inline constexpr int square_sum_limbs = 21;  // 20 digits of 32 bits, and the count of values that are not finite

// Every digit but the highest gets below 2^32; the value stays.
TRAINYARD_ANYWHERE inline void carry_digits(std::int64_t* limbs) {
  for (int i = 0; i + 2 < square_sum_limbs; ++i) {
    limbs[i + 1] += limbs[i] >> 32;
    limbs[i] &= 0xffffffff;
  }
}

// Within one unit in the last place, and equal for equal values; NaN when anything was not finite. The digits need not
// be carried.
TRAINYARD_ANYWHERE inline double value_of_digits(const std::int64_t* limbs) {
  constexpr int digits = square_sum_limbs - 1;
  if (limbs[digits] != 0) return nan("");
  std::int64_t d[digits], carry = 0;
  for (int i = 0; i < digits; ++i) {
    const std::int64_t total = limbs[i] + carry;
    d[i] = total & 0xffffffff;
    carry = total >> 32;
  }
  // From the top, in a fixed order. A product by a power of two is exact, so it does not matter whether the addition is
  // fused with it.
  double out = ldexp(static_cast<double>(carry), 32 * digits - 320);
  for (int i = digits - 1; i >= 0; --i) out += ldexp(static_cast<double>(d[i]), 32 * i - 320);
  return out;
}

}  // namespace trainyard::kernels

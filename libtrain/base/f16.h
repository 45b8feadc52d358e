// f16: IEEE half precision, with its exact conversions.
#pragma once

#include <bit>
#include <cstdint>

namespace trainyard::base {

// Widening is exact, also of a NaN. Narrowing rounds to nearest, ties to even. Values that are too large become
// infinite. A NaN keeps its upper digits and becomes quiet. Kernels (kernels/half_bits.h, or the instructions) have
// these bits, except that widening makes a NaN quiet, too.
struct f16 {
  std::uint16_t bits;

  f16() = default;
  constexpr explicit f16(float value) : bits(narrow(value)) {}
  constexpr explicit operator float() const { return widen(bits); }

  static constexpr float widen(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u, mantissa = half & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // zero or subnormal
    return sign != 0 ? -magnitude : magnitude;
  }
  // The bits whose widening has given `value`, also those of a NaN that narrowing would quiet.
  static constexpr std::uint16_t widened_from(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) <= 0x7f800000u) return narrow(value);
    return static_cast<std::uint16_t>((u >> 16 & 0x8000u) | 0x7c00u | (u >> 13 & 0x3ffu));
  }
  static constexpr std::uint16_t narrow(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value), magnitude = u & 0x7fffffffu;
    const auto sign = static_cast<std::uint16_t>(u >> 16 & 0x8000u);
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000u) half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    else if (magnitude >= 0x47800000u) half = 0x7c00u;  // 2^16 and more; values that round up to 2^16 follow below
    else if (magnitude >= 0x38800000u) half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    else if (magnitude > 0x33000000u) {  // below 2^-14, above 2^-25: units of 2^-24
      const auto shift = 126u - (magnitude >> 23), mantissa = (magnitude & 0x7fffffu) | 0x800000u;
      half = mantissa >> shift;
      const auto rest = mantissa & ((1u << shift) - 1), tie = 1u << (shift - 1);
      if (rest > tie || (rest == tie && (half & 1u) != 0)) ++half;
    }
    return static_cast<std::uint16_t>(sign | half);
  }
};
static_assert(sizeof(f16) == 2);

}  // namespace trainyard::base

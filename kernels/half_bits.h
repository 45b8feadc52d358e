// Conversions between f32 and f16 (IEEE half precision) in integer arithmetic, for processors without instructions for
// them. Every source has copies of its own, so that instruction sets share no code.
#pragma once

#include <cstdint>

namespace trainyard::kernels {
namespace {

inline float float_of_bits(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}

// Exact. A NaN stays one and becomes quiet, as the instructions make it.
inline float f32_of_f16(std::uint16_t half) {
  const std::uint32_t rest = half & 0x7fffu, sign = (half & 0x8000u) << 16;
  const std::uint32_t subnormal = bits_of_float(static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-24f);
  const std::uint32_t normal = (rest << 13) + 0x38000000u;
  const std::uint32_t special = rest << 13 | 0x7f800000u | (rest > 0x7c00u ? 0x400000u : 0u);
  return float_of_bits(sign | (rest < 0x400u ? subnormal : rest < 0x7c00u ? normal : special));
}

// Rounds to nearest, ties to even. What rounds to 2^16 or more is infinite. A NaN stays one and becomes quiet.
inline std::uint16_t f16_of_f32(float value) {
  const std::uint32_t bits = bits_of_float(value), size = bits & 0x7fffffffu;
  // Adding a half rounds a size below 2^-14 to a multiple of 2^-24, which is a half's unit there.
  const std::uint32_t subnormal = bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
  const std::uint32_t special = size > 0x7f800000u ? 0x7e00u | (size >> 13 & 0x3ffu) : 0x7c00u;
  const std::uint32_t half = size < 0x38800000u ? subnormal : size < 0x47800000u ? normal : special;
  return static_cast<std::uint16_t>(bits >> 16 & 0x8000u) | static_cast<std::uint16_t>(half);
}

}  // namespace
}  // namespace trainyard::kernels

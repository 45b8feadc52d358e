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

// `yes` where the condition holds, by a mask: a conditional expression would keep compilers from using registers of
// several numbers.
inline std::uint32_t chosen(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

// Exact. A NaN keeps its digits and becomes quiet, as the instructions make it.
inline float f32_of_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const auto rest = static_cast<std::int32_t>(half & 0x7fffu);  // signed, as SSE2 compares
  const auto wide = static_cast<std::uint32_t>(rest) << 13;
  const std::uint32_t subnormal = bits_of_float(static_cast<float>(rest) * 0x1p-24f);
  const std::uint32_t special = wide | 0x7f800000u | chosen(rest > 0x7c00, 0x400000u, 0u);
  const std::uint32_t large = chosen(rest < 0x7c00, wide + 0x38000000u, special);
  return float_of_bits(sign | chosen(rest < 0x400, subnormal, large));
}

// Rounds to nearest, ties to even. What rounds to 2^16 or more is infinite. A NaN keeps its upper digits and becomes
// quiet.
inline std::uint16_t f16_of_f32(float value) {
  const std::uint32_t bits = bits_of_float(value), size = bits & 0x7fffffffu;
  const auto order = static_cast<std::int32_t>(size);
  // Adding a half rounds a size below 2^-14 to a multiple of 2^-24, which is a half's unit there.
  const std::uint32_t subnormal = bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
  const std::uint32_t special = 0x7c00u | chosen(order > 0x7f800000, 0x200u | (size >> 13 & 0x3ffu), 0u);
  const std::uint32_t large = chosen(order < 0x47800000, normal, special);
  return static_cast<std::uint16_t>(bits >> 16 & 0x8000u) |
         static_cast<std::uint16_t>(chosen(order < 0x38800000, subnormal, large));
}

}  // namespace
}  // namespace trainyard::kernels

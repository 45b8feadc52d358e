// Element types: names, sizes, and the value type bf16 with its exact conversions.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace trainyard::base {

// bf16: the upper half of an IEEE fp32. Widening is exact. Narrowing rounds to nearest, ties to even. NaN stays NaN.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  constexpr explicit bf16(float value) : bits(narrow(value)) {}
  constexpr explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

  static constexpr std::uint16_t narrow(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);
    return static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
};
static_assert(sizeof(bf16) == 2);

// f64 is for gradient checks: every kernel accepts it on the CPU, and train does not offer it.
enum class DType : std::uint8_t { f32, bf16, f64, i32, i64, u8, u16, u32, u64 };

constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
    case DType::u64: return 8;
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::bf16:
    case DType::u16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

const char* name_of(DType t);                  // "f32", "bf16", ...
DType dtype_from_name(std::string_view name);  // throws UsageError that names f32 and bf16

template <class T> struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<bf16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<std::uint16_t> { static constexpr DType value = DType::u16; };
template <> struct DTypeOf<std::uint32_t> { static constexpr DType value = DType::u32; };
template <> struct DTypeOf<std::uint64_t> { static constexpr DType value = DType::u64; };

}  // namespace trainyard::base

// Element types: their traits, and the value type bf16 with its exact conversions.
#pragma once

#include "libtrain/base/f16.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::base {

// bf16: the upper half of an IEEE fp32. Widening is exact. Narrowing rounds to nearest, ties to even. NaN stays NaN.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  constexpr explicit bf16(float value) : bits(narrow(value)) {}
  constexpr explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

  // The bits whose widening has given `value`, also those of a NaN that narrowing would quiet.
  static constexpr std::uint16_t widened_from(float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
  static constexpr std::uint16_t narrow(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);
    return static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
};
static_assert(sizeof(bf16) == 2);

// f64 is for gradient checks: every kernel accepts it on the CPU, and train does not offer it.
enum class DType : std::uint8_t { f32, bf16, f64, i32, i64, u8, u16, u32, u64, f16 };

// What is known of an element type. Everything that depends on one asks these, and no dtype by its name.
struct DTypeTraits {
  DType dtype;
  const char* name;
  std::int64_t bytes;
  // Bits of a significand with the leading one: rounding to it changes a value by at most 2^-digits of it. 0: integers.
  int digits = 0;
  // Narrower than f32: kernels add in f32 and round results once, and a training keeps f32 master weights.
  bool narrow = false;
  bool kernels = false;  // kernels compute in it: every operation takes it
  // Whether a run can compute in it (--dtype). Else it is only for indices, or for checks.
  bool trains = false;
  // Its smallest values are so large that gradients vanish in it: a run scales its loss (engine/loss_scale.h).
  bool narrow_range = false;
  // Other spellings of its name in settings of a run.
  std::array<const char*, 3> spellings = {};
};
inline constexpr std::array dtype_traits = {
    DTypeTraits{DType::f32, "f32", 4, 24, false, true, true},
    DTypeTraits{DType::bf16, "bf16", 2, 8, true, true, true},
    DTypeTraits{DType::f64, "f64", 8, 53, false, true},
    DTypeTraits{DType::i32, "i32", 4},
    DTypeTraits{DType::i64, "i64", 8},
    DTypeTraits{DType::u8, "u8", 1},
    DTypeTraits{DType::u16, "u16", 2},
    DTypeTraits{DType::u32, "u32", 4},
    DTypeTraits{DType::u64, "u64", 8},
    DTypeTraits{DType::f16, "f16", 2, 11, true, true, true, true, {"fp16", "float16", "half"}},
};
constexpr const DTypeTraits& traits_of(DType t) { return dtype_traits[static_cast<std::size_t>(t)]; }
constexpr std::int64_t size_of(DType t) { return traits_of(t).bytes; }
constexpr bool is_narrow(DType t) { return traits_of(t).narrow; }
constexpr bool has_narrow_range(DType t) { return traits_of(t).narrow_range; }
// The dtype of sums and statistics: f32, or f64 if everything is f64.
constexpr DType accumulation_of(DType working) { return working == DType::f64 ? DType::f64 : DType::f32; }

const char* name_of(DType t);                  // "f32", "bf16", ...
DType dtype_from_name(std::string_view name);  // throws UsageError that names those of a run
// The names of the dtypes that a run can compute in, in the order of the table.
std::vector<std::string> names_of_working_dtypes();

template <class T> struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<bf16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<f16> { static constexpr DType value = DType::f16; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::f64; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<std::uint16_t> { static constexpr DType value = DType::u16; };
template <> struct DTypeOf<std::uint32_t> { static constexpr DType value = DType::u32; };
template <> struct DTypeOf<std::uint64_t> { static constexpr DType value = DType::u64; };

// Calls body with a null pointer of the value type: body(float*) for f32.
template <class Body> constexpr decltype(auto) with_value_type(DType t, Body&& body) {
  switch (t) {
    case DType::f32: break;
    case DType::bf16: return body(static_cast<bf16*>(nullptr));
    case DType::f64: return body(static_cast<double*>(nullptr));
    case DType::i32: return body(static_cast<std::int32_t*>(nullptr));
    case DType::i64: return body(static_cast<std::int64_t*>(nullptr));
    case DType::u8: return body(static_cast<std::uint8_t*>(nullptr));
    case DType::u16: return body(static_cast<std::uint16_t*>(nullptr));
    case DType::u32: return body(static_cast<std::uint32_t*>(nullptr));
    case DType::u64: return body(static_cast<std::uint64_t*>(nullptr));
    case DType::f16: return body(static_cast<f16*>(nullptr));
  }
  return body(static_cast<float*>(nullptr));
}

// Arrays of f32 from and to values of a floating dtype, one by one as the value types convert. The arrays do not
// overlap.
void to_f32(DType dtype, const void* from, std::int64_t count, float* to);
void from_f32(DType dtype, const float* from, std::int64_t count, void* to);

}  // namespace trainyard::base

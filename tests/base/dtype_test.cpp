// Tests bf16 in every bit pattern, and the names of element types.
#include "libtrain/base/dtype.h"
#include "libtrain/base/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trainyard::base {
namespace {

TEST(DType, WideningAndNarrowingReturnEveryBf16) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    bf16 v;
    v.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(v);
    if (std::isnan(wide)) ASSERT_TRUE(std::isnan(static_cast<float>(bf16(wide))));
    else ASSERT_EQ(bf16(wide).bits, bits);
    ASSERT_EQ(bf16::widened_from(wide), bits) << "every bit pattern, also of a signalling NaN";
  }
}

// Between two neighbours: values below the middle round down, above it up, and the middle rounds to the even neighbour.
TEST(DType, NarrowingRoundsToNearestTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const std::uint32_t low = bits << 16, even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(bf16(std::bit_cast<float>(low | 0x7fffu)).bits, bits);
    ASSERT_EQ(bf16(std::bit_cast<float>(low | 0x8001u)).bits, bits + 1);
    ASSERT_EQ(bf16(std::bit_cast<float>(low | 0x8000u)).bits, even);
    ASSERT_EQ(bf16(std::bit_cast<float>(low | 0x80008000u)).bits, even | 0x8000u);
  }
}

TEST(DType, WideningAndNarrowingReturnEveryF16) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    f16 v;
    v.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(v);
    if (std::isnan(wide)) ASSERT_TRUE(std::isnan(static_cast<float>(f16(wide))));
    else ASSERT_EQ(f16(wide).bits, bits);
    ASSERT_EQ(f16::widened_from(wide), bits) << "every bit pattern, also of a signalling NaN";
  }
}

TEST(DType, ArraysConvertAsTheirValues) {
  const float values[] = {1.0f, -0.1f, 70000.0f, 0x1p-24f, 3.5f};
  for (const auto dtype : {DType::f32, DType::bf16, DType::f64, DType::f16}) {
    char stored[sizeof(double) * std::size(values)] = {};
    float back[std::size(values)] = {};
    from_f32(dtype, values, std::ssize(values), stored);
    to_f32(dtype, stored, std::ssize(values), back);
    for (std::size_t i = 0; i < std::size(values); ++i) {
      const float want = dtype == DType::bf16  ? static_cast<float>(bf16(values[i]))
                         : dtype == DType::f16 ? static_cast<float>(f16(values[i]))
                                               : values[i];
      EXPECT_EQ(back[i], want) << name_of(dtype) << " of " << values[i];
    }
  }
  char nothing[8];
  EXPECT_THROW(from_f32(DType::i32, values, 1, nothing), std::logic_error);
}

TEST(DType, ANanWhosePayloadLiesBelowStaysANan) {
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(DType, NamesAndSizes) {
  const std::pair<DType, std::int64_t> all[] = {{DType::f32, 4}, {DType::bf16, 2}, {DType::f64, 8},
                                                {DType::i32, 4}, {DType::i64, 8},  {DType::u8, 1},
                                                {DType::u16, 2}, {DType::u32, 4},  {DType::u64, 8}};
  for (auto [t, size] : all) {
    EXPECT_EQ(size_of(t), size) << name_of(t);
    EXPECT_EQ(dtype_from_name(name_of(t)), t);
  }
  EXPECT_EQ(size_of(DType::f16), 2);
  EXPECT_EQ(dtype_from_name("f16"), DType::f16);
  EXPECT_THROW(dtype_from_name("f8"), UsageError);
}

// One plus half a unit of the last digit rounds to one; slightly more does not.
template <class T> int digits_of() {
  int digits = 1;
  while (static_cast<double>(static_cast<float>(T(1.0f + std::ldexp(1.0f, -digits)))) != 1) ++digits;
  return digits;
}

TEST(DType, TraitsAreThoseOfTheValueTypes) {
  EXPECT_EQ(traits_of(DType::bf16).digits, digits_of<bf16>());
  EXPECT_EQ(traits_of(DType::f16).digits, digits_of<f16>());
  EXPECT_EQ(traits_of(DType::f32).digits, std::numeric_limits<float>::digits);
  EXPECT_EQ(traits_of(DType::f64).digits, std::numeric_limits<double>::digits);
  for (const auto& t : dtype_traits) {
    EXPECT_EQ(is_narrow(t.dtype), t.dtype == DType::bf16 || t.dtype == DType::f16) << t.name;
    EXPECT_EQ(t.trains, t.dtype == DType::f32 || t.dtype == DType::bf16 || t.dtype == DType::f16) << t.name;
    EXPECT_EQ(t.kernels, t.digits > 0) << t.name;
    EXPECT_TRUE(!t.trains || t.kernels) << t.name;
    EXPECT_EQ(with_value_type(t.dtype, []<class T>(T*) { return DTypeOf<T>::value; }), t.dtype) << t.name;
  }
  EXPECT_EQ(names_of_working_dtypes(), (std::vector<std::string>{"f32", "bf16", "f16"}));
  EXPECT_EQ(accumulation_of(DType::f64), DType::f64);
  for (const auto t : {DType::f32, DType::bf16, DType::f16}) EXPECT_EQ(accumulation_of(t), DType::f32);
}

}  // namespace
}  // namespace trainyard::base

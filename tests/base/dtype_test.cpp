// Tests bf16 in every bit pattern, and the names of element types.
#include "libtrain/base/dtype.h"
#include "libtrain/base/error.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard::base {
namespace {

TEST(DType, WideningAndNarrowingReturnEveryBf16) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    bf16 v;
    v.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(v);
    if (std::isnan(wide)) ASSERT_TRUE(std::isnan(static_cast<float>(bf16(wide))));
    else ASSERT_EQ(bf16(wide).bits, bits);
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
  EXPECT_THROW(dtype_from_name("f16"), UsageError);
}

}  // namespace
}  // namespace trainyard::base

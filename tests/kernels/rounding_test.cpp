// Tests the rounding of attention's operands before products by pairs: equal on every path, for all sizes of numbers.
#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace trainyard::kernels {

TRAINYARD_CPU_VARIANTS(void, roundings, (int n, const float* x, std::uint16_t* halves, std::uint32_t* words))
TRAINYARD_CPU_VARIANTS(int, lanes_of_rounding, ())
TRAINYARD_CPU_VARIANT(avx512bf16, void, roundings, (int n, const float* x, std::uint16_t* halves, std::uint32_t* words))
TRAINYARD_CPU_VARIANT(avx512bf16, int, lanes_of_rounding, ())

namespace {

struct Path {
  Isa isa;
  void (*round)(int, const float*, std::uint16_t*, std::uint32_t*);
  int (*lanes)();
};
const Path paths[] = {{Isa::baseline, baseline::roundings, baseline::lanes_of_rounding},
                      {Isa::avx2, avx2::roundings, avx2::lanes_of_rounding},
                      {Isa::avx512, avx512::roundings, avx512::lanes_of_rounding},
                      {Isa::avx512bf16, avx512bf16::roundings, avx512bf16::lanes_of_rounding}};

// Every upper half, with lower halves at both ends and around the middle, where the rounding changes.
std::vector<float> numbers() {
  std::vector<float> x;
  for (std::uint32_t high = 0; high < 1u << 16; ++high)
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x1234u, 0xcafeu})
      x.push_back(std::bit_cast<float>(high << 16 | low));
  return x;
}

// The nearer of the two neighbouring bf16 values, in double precision; ties to even. Denormals become zero.
std::uint16_t nearest(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto cut = static_cast<std::uint16_t>(bits >> 16);
  if (std::fpclassify(x) == FP_SUBNORMAL) return cut & 0x8000u;
  if ((bits & 0xffffu) == 0) return cut;
  const auto value = [](std::uint16_t half) {
    const double size = std::ldexp((half & 0x7fu) + 128.0, (half >> 7 & 0xff) - 134);  // infinity as 2^128
    return (half & 0x8000u) != 0 ? -size : size;
  };
  const auto next = static_cast<std::uint16_t>(cut + 1);
  const double down = std::abs(x - value(cut)), up = std::abs(value(next) - x);
  return down < up || (down == up && cut % 2 == 0) ? cut : next;
}

TEST(Rounding, IsToTheNearestOnEveryPath) {
  const auto x = numbers();
  std::vector<std::uint16_t> halves(x.size());
  std::vector<std::uint32_t> words(x.size() / 2);
  int seen = 0;
  for (const auto& path : paths) {
    if (!machine_has(path.isa)) continue;
    ++seen;
    path.round(static_cast<int>(x.size()), x.data(), halves.data(), words.data());
    const auto lanes = static_cast<std::size_t>(path.lanes());
    std::int64_t wrong = 0;
    float one = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto in_pair = i % (2 * lanes), word = i / (2 * lanes) * lanes + in_pair % lanes;
      const auto in_word = static_cast<std::uint16_t>(in_pair < lanes ? words[word] : words[word] >> 16);
      const bool none = std::isnan(x[i]);
      const auto is_none = [](std::uint16_t half) { return (half & 0x7fffu) > 0x7f80u; };
      const bool right =
          none ? is_none(halves[i]) && is_none(in_word) : halves[i] == nearest(x[i]) && in_word == halves[i];
      if (!right) ++wrong, one = x[i];
    }
    EXPECT_EQ(wrong, 0) << name_of(path.isa) << ", one of them: " << one << " as " << std::bit_cast<std::uint32_t>(one);
  }
  EXPECT_GE(seen, 1);
}

}  // namespace
}  // namespace trainyard::kernels

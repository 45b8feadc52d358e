// Every path converts f16 with the bits of base/f16.h: all f16, all edges of rounding, and millions of f32 numbers.
#include "libtrain/base/f16.h"
#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace trainyard::kernels {

TRAINYARD_CPU_VARIANTS(void, widened_f16,
                       (int n, int row, const std::uint16_t* halves, float* rows, float* registers, float* one_by_one))
TRAINYARD_CPU_VARIANTS(void, narrowed_f16,
                       (int n, int row, const float* x, std::uint16_t* rows, std::uint16_t* one_by_one))

namespace {

using base::f16;

struct Path {
  Isa isa;
  decltype(&baseline::widened_f16) widen;
  decltype(&baseline::narrowed_f16) narrow;
};
const Path paths[] = {{Isa::baseline, baseline::widened_f16, baseline::narrowed_f16},
                      {Isa::avx2, avx2::widened_f16, avx2::narrowed_f16},
                      {Isa::avx512, avx512::widened_f16, avx512::narrowed_f16}};

// A row of one register or more, and rows with a rest behind their registers.
const int row_lengths[] = {1, 7, 8, 16, 21, 43, 256};

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

TEST(F16, EveryNumberIsWidenedOnEveryPath) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  const auto n = static_cast<int>(halves.size());
  std::vector<float> rows(halves.size()), registers(halves.size()), one_by_one(halves.size());
  for (const auto& path : paths) {
    if (!machine_has(path.isa)) continue;
    for (const int row : row_lengths) {
      path.widen(n, row, halves.data(), rows.data(), registers.data(), one_by_one.data());
      for (std::size_t i = 0; i < halves.size(); ++i) {
        // Kernels make a NaN quiet, as the instructions do; base/f16.h keeps every bit of it.
        const float kept = f16::widen(halves[i]);
        const auto want = std::isnan(kept) ? bits_of(kept) | 0x400000u : bits_of(kept);
        ASSERT_EQ(bits_of(rows[i]), want) << name_of(path.isa) << ", f16 " << i << " in rows of " << row;
        ASSERT_EQ(bits_of(registers[i]), want) << name_of(path.isa) << ", f16 " << i;
        ASSERT_EQ(bits_of(one_by_one[i]), want) << name_of(path.isa) << ", f16 " << i;
      }
    }
  }
}

// Every f16, every number halfway to the next one, where rounding changes, the f32 neighbours of both, and bit patterns
// by chance, which have NaN of both kinds among them.
std::vector<float> numbers() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x;
  const auto with_neighbours = [&](float at) {
    x.insert(x.end(), {std::nextafter(at, -infinity), at, std::nextafter(at, infinity)});
  };
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const float here = f16::widen(half);
    if (!std::isfinite(here)) continue;
    const bool largest = (half & 0x7fffu) == 0x7bffu;
    const float next = largest ? std::copysign(65536.0f, here) : f16::widen(static_cast<std::uint16_t>(half + 1));
    with_neighbours(here);
    with_neighbours(here + (next - here) / 2);
  }
  x.insert(x.end(), {infinity, -infinity, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()});
  for (const std::uint32_t nan : {0x7f800001u, 0x7fbfffffu, 0x7fc00000u, 0xff801fffu, 0xff802000u, 0xffffffffu})
    x.push_back(std::bit_cast<float>(nan));
  std::mt19937 random(16);
  for (int i = 0; i < 2'000'000; ++i) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  // Two thirds of all patterns are too large or too small for an f16: as many again from 2^-26 to 2^17.
  for (int i = 0; i < 2'000'000; ++i) {
    const auto pattern = static_cast<std::uint32_t>(random());
    x.push_back(std::bit_cast<float>((pattern & 0x807fffffu) | (101u + (pattern >> 23 & 255u) % 43u) << 23));
  }
  while (x.size() % 16 != 0) x.push_back(1.0f);
  return x;
}

TEST(F16, NumbersAreNarrowedAlikeOnEveryPath) {
  const auto x = numbers();
  std::vector<std::uint16_t> rows(x.size()), one_by_one(x.size());
  int seen = 0;
  for (const auto& path : paths) {
    if (!machine_has(path.isa)) continue;
    ++seen;
    for (const int row : row_lengths) {
      path.narrow(static_cast<int>(x.size()), row, x.data(), rows.data(), one_by_one.data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto want = f16::narrow(x[i]);
        ASSERT_EQ(rows[i], want) << name_of(path.isa) << ", f32 " << bits_of(x[i]) << " in rows of " << row;
        ASSERT_EQ(one_by_one[i], want) << name_of(path.isa) << ", f32 " << bits_of(x[i]);
      }
    }
  }
  EXPECT_GE(seen, 1);
}

// What base/f16.h computes, against the nearest f16 in double precision, ties to even.
TEST(F16, IntegerArithmeticFindsTheNearest) {
  std::int64_t wrong = 0;
  float one = 0;
  for (const float x : numbers()) {
    const std::uint16_t half = f16::narrow(x);
    if (std::isnan(x)) {
      wrong += (half & 0x7fffu) < 0x7e00u;  // not quiet
      continue;
    }
    int exponent = 0;
    std::frexp(static_cast<double>(x), &exponent);
    const int unit = std::max(exponent - 11, -24);
    const double near = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(x), -unit)), unit);
    const double want = std::abs(near) > 65504 ? std::copysign(std::numeric_limits<double>::infinity(), near) : near;
    const double got = f16::widen(half);
    if (got != want || std::signbit(got) != std::signbit(x)) ++wrong, one = x;
  }
  EXPECT_EQ(wrong, 0) << "one of them: " << bits_of(one);
}

}  // namespace
}  // namespace trainyard::kernels

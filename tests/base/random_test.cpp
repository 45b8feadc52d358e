// Compares Philox with its paper's vectors, and the hash, normals and data order with an independent implementation.
#include "libtrain/base/random.h"
#include "tests/golden/random_golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

namespace trainyard::base {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known answers that Salmon et al. publish: for zeros, for ones, for digits of pi.
TEST(Random, PhiloxKnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, SiteHashAndWords) {
  for (const auto& s : golden::sites) EXPECT_EQ(site_hash(s.purpose, s.site), s.hash) << s.purpose << " " << s.site;
  for (const auto& w : golden::words)
    EXPECT_EQ(random_words(w.seed, w.site, w.index), (Block{w.words[0], w.words[1], w.words[2], w.words[3]}))
        << w.index;
}
TEST(Random, PurposeAndSiteDoNotRunTogether) { EXPECT_NE(site_hash("ab", "c"), site_hash("a", "bc")); }

// Logarithm, sine and cosine of two libraries may differ in the last place.
TEST(Random, Normals) {
  const auto site = site_hash("init", golden::normal_name);
  for (const auto& n : golden::normals)
    EXPECT_NEAR(normal_value(golden::normal_seed, site, n.index), n.value, 1e-14 * (1 + std::abs(n.value))) << n.index;
}

TEST(Random, AnySliceOfAParameterHasTheSameBits) {
  std::vector<float> whole(101);
  fill_normal(whole.data(), 101, 5, "w", 0, .02);
  for (std::int64_t first : {0, 1, 2, 7, 100})
    for (std::int64_t n : {0, 1, 2, 3, 50}) {
      if (first + n > 101) continue;
      std::vector<float> part(static_cast<std::size_t>(n));
      fill_normal(part.data(), n, 5, "w", static_cast<std::uint64_t>(first), .02);
      for (std::int64_t i = 0; i < n; ++i)
        EXPECT_EQ(part[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(first + i)]) << first << "+" << i;
    }
}

// The vector code gives the values that the scalar path defines.
TEST(Random, ManyValuesAreThoseMadeOneByOne) {
  const auto site = site_hash("init", "w");
  std::vector<float> values(std::size_t{1} << 18);
  for (const double stddev : {0.02, 1.0, 3e-42, 0.0, -7.0})
    for (const std::uint64_t first : {0ull, 1ull, 255ull, (1ull << 33) - 1000, ~0ull - (1ull << 18)}) {
      const auto count = static_cast<std::int64_t>(values.size()) - static_cast<std::int64_t>(first % 300);
      fill_normal(values.data(), count, 7, "w", first, stddev);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<float>(stddev * normal_value(7, site, first + static_cast<std::uint64_t>(i)));
        wrong +=
            std::bit_cast<std::uint32_t>(value) != std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(i)]);
      }
      EXPECT_EQ(wrong, 0) << stddev << " from " << first;
    }
}

// The standard deviation puts one value of each block next to the middle between two floats. There the last place of a
// double decides, and the vector code has another last place.
TEST(Random, ValuesBetweenTwoFloatsAreThoseOfTheScalarPath) {
  const auto site = site_hash("init", "w");
  std::array<float, 256> values{};
  std::int64_t wrong = 0;
  for (std::uint64_t trial = 0; trial < 2000; ++trial) {
    const auto first = 256 * trial, chosen = first + trial % 256;
    const double normal = normal_value(3, site, chosen);
    const auto below = static_cast<float>(normal);
    const double middle = 0.5 * (static_cast<double>(below) + std::nextafter(below, 10.0f));
    const double stddev = middle / normal;
    fill_normal(values.data(), 256, 3, "w", first, stddev);
    wrong += values[chosen - first] != static_cast<float>(stddev * normal);
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Random, NormalsHaveTheirMoments) {
  constexpr int n = 200000;
  std::vector<float> x(n);
  fill_normal(x.data(), n, 1, "moments", 0, 1);
  double mean = 0, square = 0, fourth = 0;
  for (double v : x) mean += v / n, square += v * v / n, fourth += v * v * v * v / n;
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96.0 / n));
}

TEST(Random, UniformIsBelowOne) {
  EXPECT_EQ(uniform53(0, 0), 0);
  EXPECT_LT(uniform53(~0u, ~0u), 1);
  EXPECT_EQ(uniform53(0x80000000u, 0), 0.5);
}

TEST(Random, PermutationMeetsEveryIndexOnce) {
  for (std::uint64_t n : {1, 2, 3, 4, 5, 7, 64, 65, 1000, 4097}) {
    const Permutation order(n, 11, 2);
    std::vector<int> met(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      ASSERT_LT(order(i), n);
      ++met[order(i)];
    }
    for (int count : met) ASSERT_EQ(count, 1) << n;
  }
}

TEST(Random, PermutationFollowsKeyAndEpoch) {
  for (const auto& o : golden::orders)
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(o.n, 8); ++i)
      EXPECT_EQ(Permutation(o.n, o.key, o.epoch)(i), o.first[i]) << o.n << " " << i;
  int same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) same += Permutation(1000, 1, 0)(i) == Permutation(1000, 1, 1)(i);
  EXPECT_LT(same, 20);
}

}  // namespace
}  // namespace trainyard::base

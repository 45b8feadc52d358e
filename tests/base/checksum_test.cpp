// Compares CRC32C with RFC 3720's vectors and a bitwise division, and fingerprints with an independent implementation.
#include "libtrain/base/checksum.h"
#include "tests/golden/random_golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace trainyard::base {
namespace {

std::uint32_t bitwise(const unsigned char* p, std::size_t n) {
  std::uint32_t c = ~0u;
  for (std::size_t i = 0; i < n; ++i) {
    c ^= p[i];
    for (int k = 0; k < 8; ++k) c = (c & 1) ? (c >> 1) ^ 0x82F63B78u : c >> 1;
  }
  return ~c;
}

std::vector<unsigned char> some_bytes(std::size_t n) {
  std::vector<unsigned char> b(n);
  std::uint32_t s = 1;
  for (auto& v : b) s = s * 1664525 + 1013904223, v = static_cast<unsigned char>(s >> 24);
  return b;
}

TEST(Checksum, VectorsOfRfc3720) {
  std::vector<unsigned char> zeros(32, 0), ones(32, 0xff), up(32), down(32);
  for (unsigned i = 0; i < 32; ++i) up[i] = static_cast<unsigned char>(i), down[i] = static_cast<unsigned char>(31 - i);
  EXPECT_EQ(crc32c(zeros.data(), 32), 0x8a9136aau);
  EXPECT_EQ(crc32c(ones.data(), 32), 0x62a8ab43u);
  EXPECT_EQ(crc32c(up.data(), 32), 0x46dd794eu);
  EXPECT_EQ(crc32c(down.data(), 32), 0x113fdb5cu);
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c(nullptr, 0), 0u);
}

TEST(Checksum, EveryLengthAndAlignment) {
  const auto b = some_bytes(300);
  for (std::size_t start = 0; start < 9; ++start)
    for (std::size_t n = 0; n + start <= 300; n += 1 + n / 20)
      ASSERT_EQ(crc32c(b.data() + start, n), bitwise(b.data() + start, n)) << start << "+" << n;
  // Lengths around those at which three streams begin, and begin once more.
  for (std::size_t n : {4095u, 4096u, 12288u, 12289u, 24575u, 24576u, 24577u, 24599u, 49151u, 49152u, 100003u}) {
    const auto large = some_bytes(n + 3);
    for (std::size_t start : {0u, 3u})
      ASSERT_EQ(crc32c(large.data() + start, n), bitwise(large.data() + start, n)) << n;
  }
}

TEST(Checksum, PartsContinueOneAnother) {
  const auto b = some_bytes(130011);
  const auto whole = crc32c(b.data(), b.size());
  for (std::size_t cut : {0u, 1u, 7u, 8u, 4096u, 24577u, 60000u, 130011u})
    EXPECT_EQ(crc32c(b.data() + cut, b.size() - cut, crc32c(b.data(), cut)), whole) << cut;
}

TEST(Checksum, FingerprintsOfAnIndependentImplementation) {
  for (const auto& f : golden::fingerprints) {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(100 * f.size));
    for (std::uint64_t i = 0; i < 100; ++i) {
      const std::uint64_t value = i * 0x9E3779B97F4A7C15ull + 11;
      std::memcpy(bytes.data() + i * static_cast<std::uint64_t>(f.size), &value, static_cast<std::size_t>(f.size));
    }
    EXPECT_EQ(fingerprint(bytes.data(), 100, f.size, 1000), f.value) << f.size;
  }
}

TEST(Checksum, FingerprintsOfPartsAddUp) {
  const auto b = some_bytes(4 * 1000);
  const auto whole = fingerprint(b.data(), 1000, 4, 77);
  for (std::int64_t step : {1, 3, 64, 999}) {
    std::uint64_t sum = 0;
    for (std::int64_t at = 0; at < 1000; at += step)
      sum += fingerprint(b.data() + 4 * at, std::min<std::int64_t>(step, 1000 - at), 4,
                         77 + static_cast<std::uint64_t>(at));
    EXPECT_EQ(sum, whole) << step;
  }
  auto swapped = b;
  std::swap_ranges(swapped.begin(), swapped.begin() + 4, swapped.begin() + 40);
  EXPECT_NE(fingerprint(swapped.data(), 1000, 4, 77), whole) << "two elements in each other's place";
}

}  // namespace
}  // namespace trainyard::base

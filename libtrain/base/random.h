// Random numbers without state: Philox 4x32-10 keyed by (seed, purpose, site, logical index), and initial values from
// it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace trainyard::base {

// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). key = seed; counter = (site hash, logical
// index).
using PhiloxBlock = std::array<std::uint32_t, 4>;
inline constexpr int philox_rounds = 10;
// Added to the keys after each round.
inline constexpr std::uint32_t philox_step_0 = 0x9E3779B9u, philox_step_1 = 0xBB67AE85u;

constexpr PhiloxBlock philox_round(PhiloxBlock c, std::uint32_t k0, std::uint32_t k1) {
  const std::uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
  return {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
}

constexpr PhiloxBlock philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high) {
  PhiloxBlock c{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
                static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < philox_rounds; ++round) {
    c = philox_round(c, k0, k1);
    k0 += philox_step_0;
    k1 += philox_step_1;
  }
  return c;
}

// 64-bit hash of purpose and site name, part of the file format. FNV-1a over "purpose", a zero byte and "site", then
// the splitmix64 finaliser.
constexpr std::uint64_t site_hash(std::string_view purpose, std::string_view site) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  const auto eat = [&h](unsigned char byte) { h = (h ^ byte) * 0x100000001b3ull; };
  for (char c : purpose) eat(static_cast<unsigned char>(c));
  eat(0);
  for (char c : site) eat(static_cast<unsigned char>(c));
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

// Four Philox words of a site: counter_low = logical index, counter_high = site hash.
constexpr std::array<std::uint32_t, 4> random_words(std::uint64_t seed, std::uint64_t site, std::uint64_t index) {
  return philox(seed, index, site);
}

// Uniform in [0, 1) with 53 bits from two words (word pair 0 or 1 of a block).
constexpr double uniform53(std::uint32_t a, std::uint32_t b) {
  return static_cast<double>(((static_cast<std::uint64_t>(a) << 32) | b) >> 11) * 0x1.0p-53;
}

// Element `index` of a parameter's standard normal sequence: Box-Muller in double over block index/2, cosine for even
// indices, sine for odd. This is one scalar code path on the host (in random.cpp), so any rank can compute any slice
// with the same bits.
double normal_value(std::uint64_t seed, std::uint64_t site, std::uint64_t index);

// Fills out[i] = float(stddev * normal(first_index + i)) for the parameter called `name` (purpose "init").
void fill_normal(float* out, std::int64_t count, std::uint64_t seed, std::string_view name, std::uint64_t first_index,
                 double stddev);

// A keyed permutation of [0, n): a six-round Feistel network with cycle walking. It needs no memory. There is no
// inverse, because none is needed.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t key, std::uint64_t epoch);
  std::uint64_t operator()(std::uint64_t index) const;  // index < n
  std::uint64_t size() const { return n_; }

 private:
  std::uint64_t n_, key_, epoch_;
  int half_bits_;
};

}  // namespace trainyard::base

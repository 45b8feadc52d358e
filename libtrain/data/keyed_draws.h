// KeyedDraws: the random numbers of one sample, which depend on no rank, thread or parallel layout.
#pragma once

#include "libtrain/base/random.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard::data {

// Which sample draws. In training the epoch is part of the sample's number; an evaluation draws for a window alone.
struct SampleKey {
  std::uint64_t seed = 0, sample = 0;
  bool evaluation = false;
  static SampleKey of_training(std::uint64_t seed, std::uint64_t sample) { return {seed, sample, false}; }
  static SampleKey of_evaluation(std::uint64_t window) { return {0, window, true}; }
};

// Draw i has 64 bits: the first two words of random_words(seed + sample * 0x9E3779B97F4A7C15, site_hash(purpose,
// "training SITE" or "evaluation SITE"), i), the first word above.
class KeyedDraws {
 public:
  KeyedDraws(const SampleKey& key, std::string_view purpose, std::string_view site)
      : key_(key.seed + key.sample * 0x9E3779B97F4A7C15ull),
        site_(base::site_hash(purpose, std::string(key.evaluation ? "evaluation " : "training ").append(site))) {}

  std::uint64_t bits(std::int64_t i) const {
    const auto w = base::random_words(key_, site_, static_cast<std::uint64_t>(i));
    return std::uint64_t{w[0]} << 32 | w[1];
  }
  // Uniform in [0, n): floor(bits * n / 2^64).
  std::int64_t below(std::int64_t i, std::int64_t n) const {
    return static_cast<std::int64_t>(static_cast<unsigned __int128>(bits(i)) * static_cast<std::uint64_t>(n) >> 64);
  }
  // Calls chosen(place) for `count` of the places [0, n), ascending; every choice is equally likely. Place i is chosen
  // where draw i below the number of places that are left is below the number that is still wanted.
  template <class Chosen> void choose(std::int64_t n, std::int64_t count, const Chosen& chosen) const {
    for (std::int64_t i = 0; count > 0; ++i)
      if (below(i, n - i) < count) chosen(i), --count;
  }

 private:
  std::uint64_t key_, site_;
};

}  // namespace trainyard::data

// Initial values and the data order: scalar host code only, so that bits never depend on a vector path.
#include "libtrain/base/random.h"

#include "libtrain/base/error.h"

#include <bit>
#include <numbers>

namespace trainyard::base {

namespace {

struct NormalPair {
  double even, odd;
};

NormalPair normal_pair(std::uint64_t seed, std::uint64_t site, std::uint64_t block) {
  const auto w = random_words(seed, site, block);
  const double u1 = 1.0 - uniform53(w[0], w[1]);  // (0, 1]: the logarithm is finite
  const double u2 = uniform53(w[2], w[3]);
  const double radius = std::sqrt(-2.0 * std::log(u1));
  const double angle = 2.0 * std::numbers::pi * u2;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

double normal_value(std::uint64_t seed, std::uint64_t site, std::uint64_t index) {
  const auto pair = normal_pair(seed, site, index / 2);
  return index % 2 == 0 ? pair.even : pair.odd;
}

void fill_normal(float* out, std::int64_t count, std::uint64_t seed, std::string_view name, std::uint64_t first_index,
                 double stddev) {
  const auto site = site_hash("init", name);
  std::int64_t i = 0;
  if (count > 0 && first_index % 2 == 1) out[i++] = static_cast<float>(stddev * normal_value(seed, site, first_index));
  for (; i + 1 < count; i += 2) {
    const auto pair = normal_pair(seed, site, (first_index + static_cast<std::uint64_t>(i)) / 2);
    out[i] = static_cast<float>(stddev * pair.even);
    out[i + 1] = static_cast<float>(stddev * pair.odd);
  }
  if (i < count)
    out[i] = static_cast<float>(stddev * normal_value(seed, site, first_index + static_cast<std::uint64_t>(i)));
}

Permutation::Permutation(std::uint64_t n, std::uint64_t key, std::uint64_t epoch) : n_(n), key_(key), epoch_(epoch) {
  TRAINYARD_ASSERT(n > 0, "a permutation of {} elements", n);
  const int bits = n <= 1 ? 0 : std::bit_width(n - 1);
  half_bits_ = (bits + 1) / 2;
  if (half_bits_ == 0) half_bits_ = 1;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  const std::uint64_t mask = (1ull << half_bits_) - 1;
  const auto site = site_hash("data", "order");
  do {
    std::uint64_t left = index >> half_bits_, right = index & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      const auto w = philox(key_, right | (round << 56), site ^ epoch_);
      const std::uint64_t next = left ^ (((static_cast<std::uint64_t>(w[0]) << 32) | w[1]) & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= n_);
  return index;
}

}  // namespace trainyard::base

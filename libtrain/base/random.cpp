// Initial values and the data order. Scalar host code defines every bit. Vector code computes initial values where it
// is sure of the scalar result.
#include "libtrain/base/random.h"

#include "libtrain/base/error.h"
#include "libtrain/base/wide_vectors.h"

#include <algorithm>
#include <bit>
#include <cmath>
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

// Computes many pairs at once, in plain arithmetic that gives the same bits on any vector unit. The math library rounds
// the functions of normal_pair in its own way. The two results differ by less than `doubt` times the radius: series end
// where their terms are below 4e-15, an angle of the scalar path is off by 2e-15, and sums and products add 2e-15.
// Where both ends of this interval round to the same float, the scalar path gives that float too. For all other values
// the scalar path is called.
class NormalBlock {
 public:
  static constexpr std::size_t pairs = 128;

  // Computes out[2 i] and out[2 i + 1] for `pairs` pairs, beginning with pair `first`.
  void fill(float* out, std::uint64_t seed, std::uint64_t site, std::uint64_t first, double stddev) {
    const double size = std::abs(stddev) * doubt;
    const auto unsure = with_wide_vectors([&]() __attribute__((always_inline)) {
      draw(seed, site, first);
      std::uint32_t any = 0;
      for (std::size_t i = 0; i < pairs; ++i) {
        const double radius = std::sqrt(-2.0 * log_of(1.0 - uniform(w_[0][i], w_[1][i])));
        const double turns = 4.0 * uniform(w_[2][i], w_[3][i]);
        // The nearest quarter of a full angle: adding a large number leaves no bits after the binary point.
        const double shifted = turns + to_integer, rest = turns - (shifted - to_integer);
        const auto quarter = std::bit_cast<std::uint64_t>(shifted);
        const double x = rest * (std::numbers::pi / 2), z = x * x;
        const double sine = x * sine_series(z), cosine = cosine_series(z);
        const bool odd = (quarter & 1) != 0;
        const double even_value = signed_by(odd ? sine : cosine, quarter + 1),
                     odd_value = signed_by(odd ? cosine : sine, quarter);
        any |= keep(stddev * (radius * even_value), radius * size, even_[i], unsure_even_[i]);
        any |= keep(stddev * (radius * odd_value), radius * size, odd_[i], unsure_odd_[i]);
      }
      return any;
    });
    for (std::size_t i = 0; i < pairs; ++i) {
      out[2 * i] = even_[i];
      out[2 * i + 1] = odd_[i];
    }
    if (unsure == 0) return;
    for (std::size_t i = 0; i < pairs; ++i) {
      if (unsure_even_[i] + unsure_odd_[i] == 0) continue;
      const auto pair = normal_pair(seed, site, first + i);
      out[2 * i] = static_cast<float>(stddev * pair.even);
      out[2 * i + 1] = static_cast<float>(stddev * pair.odd);
    }
  }

 private:
  static constexpr double doubt = 0x1p-44, to_integer = 0x1.8p52;
  using Words = std::array<std::uint32_t, pairs>;

  // Philox for `pairs` blocks at once, round by round.
  [[gnu::always_inline]] void draw(std::uint64_t seed, std::uint64_t site, std::uint64_t first) {
    for (std::size_t i = 0; i < pairs; ++i) {
      w_[0][i] = static_cast<std::uint32_t>(first + i);
      w_[1][i] = static_cast<std::uint32_t>((first + i) >> 32);
      w_[2][i] = static_cast<std::uint32_t>(site);
      w_[3][i] = static_cast<std::uint32_t>(site >> 32);
    }
    auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < philox_rounds; ++round) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const auto next = philox_round({w_[0][i], w_[1][i], w_[2][i], w_[3][i]}, k0, k1);
        w_[0][i] = next[0], w_[1][i] = next[1], w_[2][i] = next[2], w_[3][i] = next[3];
      }
      k0 += philox_step_0;
      k1 += philox_step_1;
    }
  }

  // uniform53 without a conversion of 64-bit integers: each half becomes the low bits of a large double, which is then
  // subtracted.
  [[gnu::always_inline]] static double uniform(std::uint32_t a, std::uint32_t b) {
    const auto bits = ((static_cast<std::uint64_t>(a) << 32) | b) >> 11;
    const double high = std::bit_cast<double>((bits >> 32) | 0x4530000000000000u) - (0x1p84 + 0x1p52);
    return (high + std::bit_cast<double>((bits & 0xFFFFFFFFu) | 0x4330000000000000u)) * 0x1.0p-53;
  }

  // first + z (second + z (...)).
  [[gnu::always_inline]] static double polynomial(double, double last) { return last; }
  template <class... Rest> [[gnu::always_inline]] static double polynomial(double z, double first, Rest... rest) {
    return first + z * polynomial(z, rest...);
  }

  // u = 2^k m with m between sqrt(1/2) and sqrt(2); log m = 2 artanh((m - 1) / (m + 1)).
  [[gnu::always_inline]] static double log_of(double u) {
    constexpr std::uint64_t root_of_half = 0x3FE6A09E667F3BCDu;
    const auto above = std::bit_cast<std::uint64_t>(u) - root_of_half;
    const auto k = static_cast<std::uint64_t>(static_cast<std::int64_t>(above) >> 52);
    const double m = std::bit_cast<double>((above & 0xFFFFFFFFFFFFFu) + root_of_half);
    const double exponent = std::bit_cast<double>(std::bit_cast<std::uint64_t>(to_integer) + k) - to_integer;
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    const double series =
        polynomial(z, 1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19);
    return exponent * std::numbers::ln2 + 2.0 * s * series;
  }

  [[gnu::always_inline]] static double sine_series(double z) {
    return polynomial(z, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800,
                      -1.0 / 1307674368000);
  }
  [[gnu::always_inline]] static double cosine_series(double z) {
    return polynomial(z, 1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                      -1.0 / 87178291200, 1.0 / 20922789888000);
  }
  // Negates the value where bit 1 of `quarter` is set.
  [[gnu::always_inline]] static double signed_by(double value, std::uint64_t quarter) {
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ ((quarter & 2u) << 62));
  }
  [[gnu::always_inline]] static std::uint32_t keep(double value, double doubt_of_it, float& to, std::uint32_t& unsure) {
    to = static_cast<float>(value);
    unsure = static_cast<float>(value - doubt_of_it) == static_cast<float>(value + doubt_of_it) ? 0u : 1u;
    return unsure;
  }

  std::array<Words, 4> w_;
  std::array<float, pairs> even_, odd_;
  Words unsure_even_, unsure_odd_;
};

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
  constexpr auto block = static_cast<std::int64_t>(2 * NormalBlock::pairs);
  for (NormalBlock values; i + block <= count; i += block)
    values.fill(out + i, seed, site, (first_index + static_cast<std::uint64_t>(i)) / 2, stddev);
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

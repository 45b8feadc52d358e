// Fingerprints, and sums of squares in two doubles.
#include "libtrain/checkpoint/tensor_statistics.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/wide_vectors.h"

#include <array>
#include <cmath>

namespace trainyard::checkpoint {

namespace {

// Knuth's two-sum: high + low is the exact sum of all terms, up to rounding in `low` alone.
[[gnu::always_inline]] inline void add_exactly(double& high, double& low, double x) {
  const double sum = high + x;
  const double from_x = sum - high;
  low += (high - (sum - from_x)) + (x - from_x);
  high = sum;
}

template <class T> void sum_squares(const T* data, std::int64_t count, Statistics& out) {
  constexpr std::int64_t lanes = 8;
  struct Sums {
    std::array<double, lanes> high{}, low{};
  };
  std::int64_t i = count / lanes * lanes;
  auto [high, low] = base::with_wide_vectors([=]() __attribute__((always_inline)) {
    Sums s;
    for (std::int64_t j = 0; j < i; j += lanes)
      for (std::size_t k = 0; k < lanes; ++k) {
        const double x = static_cast<float>(data[j + static_cast<std::int64_t>(k)]);
        add_exactly(s.high[k], s.low[k], x * x);
      }
    return s;
  });
  for (std::size_t k = 0; i < count; ++i, ++k) {
    const double x = static_cast<float>(data[i]);
    add_exactly(high[k], low[k], x * x);
  }
  for (std::size_t k = 0; k < lanes; ++k) out.add({0, high[k], low[k]});
}

}  // namespace

void Statistics::add(const Statistics& other) {
  fingerprint += other.fingerprint;
  add_exactly(squares, squares_low, other.squares);
  squares_low += other.squares_low;
}

double Statistics::norm() const { return std::sqrt(squares + squares_low); }

Statistics statistics_of(const void* data, std::int64_t count, base::DType dtype, std::int64_t first_index) {
  Statistics s;
  s.fingerprint =
      base::fingerprint(data, count, static_cast<int>(base::size_of(dtype)), static_cast<std::uint64_t>(first_index));
  TRAINYARD_ASSERT(dtype == base::DType::f32 || base::is_narrow(dtype), "statistics of {}", base::name_of(dtype));
  base::with_value_type(dtype, [&]<class T>(T*) { sum_squares(static_cast<const T*>(data), count, s); });
  return s;
}

}  // namespace trainyard::checkpoint

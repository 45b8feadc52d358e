// Compares quantiles and intervals with tables and with repeated random draws.
#include "libtrain/base/statistics.h"
#include "libtrain/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace trainyard::base {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> v(static_cast<std::size_t>(n));
  std::iota(v.rbegin(), v.rend(), 1.0);  // descending: the order must not matter
  return v;
}

double uniform(std::uint64_t i) { return random_words(5, 6, i)[0] * 0x1p-32; }

TEST(Statistics, Quantiles) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(quantile(one_to(5), 0.1), 1.4);  // numpy.quantile([1, 2, 3, 4, 5], 0.1)
  EXPECT_DOUBLE_EQ(quantile(one_to(5), 0), 1);
  EXPECT_DOUBLE_EQ(quantile(one_to(5), 1), 5);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.3), 7);
  EXPECT_DOUBLE_EQ(quantile({}, 0.3), 0);
}

// The 95 % ranks of Conover's table A3 for p = 1/2.
TEST(Statistics, IntervalOfAMedian) {
  const struct {
    int n, low, high;
  } table[] = {{5, 1, 5}, {6, 1, 6}, {9, 2, 8}, {10, 2, 9}, {20, 6, 15}, {30, 10, 21}, {100, 40, 61}};
  for (const auto& t : table) {
    const auto i = median_interval(one_to(t.n));
    EXPECT_EQ(i.low, t.low) << t.n;
    EXPECT_EQ(i.high, t.high) << t.n;
  }
  const auto many = median_interval(one_to(4000));  // 0.5^4000 is below the smallest double
  EXPECT_NEAR(many.low, 2000 - 62, 1);
  EXPECT_NEAR(many.high, 2000 + 62, 2);
}

TEST(Statistics, IntervalOfAFurtherValue) {
  const auto i = prediction_interval(one_to(199), 0.9);
  EXPECT_EQ(i.low, 10);
  EXPECT_EQ(i.high, 190);
  EXPECT_EQ(prediction_interval(one_to(5), 0.9).low, 1);
  EXPECT_EQ(prediction_interval(one_to(5), 0.9).high, 5);
  // Draws 40 values from a skewed distribution 4000 times. The last value lies inside the interval of the first 39 in
  // 36 of 40 draws.
  int inside = 0;
  for (std::uint64_t trial = 0; trial < 4000; ++trial) {
    std::vector<double> v;
    for (std::uint64_t k = 0; k < 40; ++k) v.push_back(std::exp(4 * uniform(trial * 40 + k)));
    const double further = v.back();
    v.pop_back();
    const auto p = prediction_interval(v, 0.9);
    inside += further >= p.low && further <= p.high;
  }
  EXPECT_NEAR(inside / 4000.0, 0.9, 0.02);
}

}  // namespace
}  // namespace trainyard::base

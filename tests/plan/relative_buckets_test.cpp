// Compares buckets of relative positions with transformers and with published borders.
#include "libtrain/plan/spec/relative_buckets.h"

#include "libtrain/base/view.h"
#include "tests/golden/relative_buckets_golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace trainyard::test {
namespace relative_buckets_test {

using plan::RelativeBucketRule;
using plan::RelativeBuckets;
using Borders = std::vector<std::int32_t>;

// 16, 32 and 64 places are exactly on a border, where a rounded logarithm may fall to either side.
TEST(RelativeBuckets, HasTheBordersOfT5) {
  EXPECT_EQ(RelativeBuckets({32, 128, true}).borders(),
            (Borders{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}));
  EXPECT_EQ(RelativeBuckets({32, 128, false}).borders(),
            (Borders{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                     16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}));
}

TEST(RelativeBuckets, EqualsTransformers) {
  for (const auto& golden : buckets_golden) {
    const RelativeBuckets buckets({golden.buckets, golden.maximum_distance, golden.bidirectional});
    std::int64_t distance = -3000;
    for (const auto& [bucket, count] : golden.runs)
      for (int n = 0; n < count; ++n, ++distance)
        ASSERT_EQ(buckets.of(distance), bucket)
            << golden.buckets << " to " << golden.maximum_distance << ": " << distance;
    EXPECT_EQ(distance, 3001);
  }
}

// Borders are the least integers at or above (maximum / e)^(k / rest) e. Powers of two show them without a logarithm:
// here every second border is a power of two.
TEST(RelativeBuckets, FarDistancesAreExactToo) {
  const auto borders = RelativeBuckets({56, std::int64_t{1} << 28, true}).borders();  // e is 14, there are 14 more
  ASSERT_EQ(std::ssize(borders), 28);
  EXPECT_TRUE(std::ranges::is_sorted(borders));
  const auto powers = RelativeBuckets({64, std::int64_t{1} << 20, true}).borders();  // from 16, by 2 for each bucket
  for (std::int64_t k = 0; k < 16; ++k) EXPECT_EQ(powers[static_cast<std::size_t>(16 + k)], 16 << k) << k;
}

// A maximum close to the exact buckets leaves some buckets without distances.
TEST(RelativeBuckets, BucketsMayHaveNoDistance) {
  const RelativeBuckets buckets({32, 18, false});
  EXPECT_EQ(buckets.of(-17), 24);  // the last of eight buckets that begin with 17
  std::vector<std::int64_t> found;
  for (int n = 15; n < 22; ++n) found.push_back(buckets.of(-n));
  EXPECT_EQ(found, (std::vector<std::int64_t>{15, 16, 24, 31, 31, 31, 31}));
}

TEST(RelativeBuckets, LaterKeysHaveOtherBuckets) {
  const RelativeBuckets both({32, 128, true}), one({32, 128, false});
  for (const auto& [distance, of_both, of_one] :
       {std::tuple{0, 0, 0}, {1, 17, 0}, {-1, 1, 1}, {1'000'000'000, 31, 0}, {-1'000'000'000, 15, 31}}) {
    EXPECT_EQ(both.of(distance), of_both) << distance;
    EXPECT_EQ(one.of(distance), of_one) << distance;
  }
}

TEST(RelativeBuckets, KnowsWhichRulesHaveAValue) {
  const auto valid = [](std::int64_t buckets, std::int64_t maximum, bool bidirectional) {
    return RelativeBucketRule{buckets, maximum, bidirectional}.valid();
  };
  EXPECT_TRUE(valid(32, 128, true) && valid(4, 2, true) && valid(2, 2, false) && valid(3, 2, false));
  EXPECT_FALSE(valid(33, 128, true));  // not the same number for each direction
  EXPECT_FALSE(valid(2, 128, true) || valid(1, 128, false) || valid(0, 128, false) || valid(-4, 128, true));
  EXPECT_FALSE(valid(32, 8, true) || valid(32, 16, false));  // no distance is left for a logarithm
  EXPECT_TRUE(valid(32, 9, true) && valid(32, 17, false));
  EXPECT_FALSE(valid(258, 1000, true) || valid(32, plan::most_relative_distance + 1, true));
  EXPECT_THROW(RelativeBuckets({33, 128, true}), std::logic_error);
}

TEST(RelativeBuckets, TheLargestRuleHasAllBorders) {
  const auto borders = RelativeBuckets({plan::most_relative_buckets, plan::most_relative_distance, false}).borders();
  EXPECT_EQ(std::ssize(borders), plan::most_relative_buckets);
}

}  // namespace relative_buckets_test
}  // namespace trainyard::test

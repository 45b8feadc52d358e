// Tests numbers as texts for people: how many digits, where the unit changes, and what is never rounded away.
#include "libtrain/base/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trainyard::base {
namespace {

TEST(NumberText, SizesHaveThreeDigits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(999), "999 B");
  EXPECT_EQ(size_text(1000), "1.00 kB");
  EXPECT_EQ(size_text(50566912), "50.6 MB");
  EXPECT_EQ(size_text(419430400), "419 MB");
  EXPECT_EQ(size_text(9'994'999), "9.99 MB");
  EXPECT_EQ(size_text(9'995'000), "10.0 MB");
  EXPECT_EQ(size_text(99'950'000), "100 MB");
  EXPECT_EQ(size_text(999'499), "999 kB");
  EXPECT_EQ(size_text(999'500), "1.00 MB");  // never 1000 kB
  EXPECT_EQ(size_text(-1500), "-1.50 kB");
  EXPECT_EQ(size_text(std::numeric_limits<std::int64_t>::max()), "9.22 EB");
  EXPECT_EQ(size_text(std::numeric_limits<std::int64_t>::min()), "-9.22 EB");
  EXPECT_EQ(size_text(50566912, Sizes::exact), "50566912");
  EXPECT_EQ(size_text(50566912, Sizes::rounded), "50.6 MB");
}

TEST(NumberText, OnlyEqualSizesDifferByNothing) {
  EXPECT_EQ(size_difference_text(0, Sizes::rounded), "0");
  EXPECT_EQ(size_difference_text(1, Sizes::rounded), "+1 B");
  EXPECT_EQ(size_difference_text(-64, Sizes::rounded), "-64 B");
  EXPECT_EQ(size_difference_text(104704, Sizes::rounded), "+105 kB");
  EXPECT_EQ(size_difference_text(104704, Sizes::exact), "104704");
  EXPECT_EQ(size_difference_text(-1, Sizes::exact), "-1");
}

TEST(NumberText, SizesThatProgramsChoose) {
  EXPECT_EQ(binary_size_text(8), "8 B");
  EXPECT_EQ(binary_size_text(1536), "1.5 KiB");
  EXPECT_EQ(binary_size_text(32768), "32 KiB");
  EXPECT_EQ(binary_size_text(std::int64_t{64} << 20), "64 MiB");
  EXPECT_EQ(binary_size_text(30000), "29.3 KiB");
  EXPECT_EQ(binary_size_text(1023 * 1024), "1023 KiB");
}

TEST(NumberText, RatesAndNumbers) {
  EXPECT_EQ(rate_text(12.1e9, "FLOP/s"), "12.1 GFLOP/s");
  EXPECT_EQ(count_rate_text(45526, "tokens/s"), "45,500 tokens/s");
  EXPECT_EQ(count_rate_text(999.6, "tokens/s"), "1,000 tokens/s");
  EXPECT_EQ(count_rate_text(0.5234, "tokens/s"), "0.523 tokens/s");
  EXPECT_EQ(count_rate_text(NAN, "tokens/s"), "nan tokens/s");
  EXPECT_EQ(rate_text(5, "B/s"), "5.00 B/s");
  EXPECT_EQ(rate_text(INFINITY, "B/s"), "inf B/s");
  EXPECT_EQ(number_text(5.478728577698837), "5.479");
  EXPECT_EQ(number_text(0.0012341), "0.001234");
  EXPECT_EQ(number_text(NAN), "nan");
  EXPECT_EQ(number_text(-NAN), "nan");
  EXPECT_EQ(count_text(124439808), "124,439,808");
  EXPECT_EQ(count_text(-1000), "-1,000");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(NumberText, Durations) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(3.02e-6), "3.02 us");
  EXPECT_EQ(duration_text(0.158), "158 ms");
  EXPECT_EQ(duration_text(0.9999), "1.0 s");
  EXPECT_EQ(duration_text(4.21), "4.2 s");
  EXPECT_EQ(duration_text(59.6), "1 min");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
  EXPECT_EQ(duration_text(864000), "10 days");
  EXPECT_EQ(duration_text(NAN), "?");
  EXPECT_EQ(duration_text(-1), "?");
  EXPECT_EQ(duration_text(INFINITY), "?");
}

}  // namespace
}  // namespace trainyard::base

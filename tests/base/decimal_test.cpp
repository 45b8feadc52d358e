// Tests decimal numbers as fractions: exact, in lowest terms, at most nine digits on either side of the point.
#include "libtrain/base/decimal.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::base {

TEST(Decimal, IsTheFractionThatIsWritten) {
  EXPECT_EQ(decimal_of("1.25"), (Fraction{5, 4}));
  EXPECT_EQ(decimal_of("1"), (Fraction{1, 1}));
  EXPECT_EQ(decimal_of("0.1"), (Fraction{1, 10}));
  EXPECT_EQ(decimal_of("1.10"), (Fraction{11, 10}));
  EXPECT_EQ(decimal_of("00012.50"), (Fraction{25, 2}));
  EXPECT_EQ(decimal_of("0.000000001"), (Fraction{1, 1'000'000'000}));
  EXPECT_EQ(decimal_of("999999999.999999999"), (Fraction{999'999'999'999'999'999, 1'000'000'000}));
  EXPECT_EQ(decimal_of("1.2"), (Fraction{6, 5}));
}

TEST(Decimal, IsTheFractionThatANumberWasReadFrom) {
  EXPECT_EQ(fraction_of(0.29), (Fraction{29, 100}));
  EXPECT_EQ(fraction_of(2.5), (Fraction{5, 2}));
  EXPECT_EQ(fraction_of(123456789.29), (Fraction{12345678929, 100}));
  EXPECT_EQ(fraction_of(1e9), (Fraction{1'000'000'000, 1}));
  EXPECT_EQ(fraction_of(1e-5), (Fraction{1, 100'000}));
  EXPECT_EQ(fraction_of(1e-12), (Fraction{1, 1'000'000'000}));
  EXPECT_EQ(fraction_of(1.0 / 3), (Fraction{333'333'333, 1'000'000'000}));
}

TEST(Decimal, NothingElseIsOne) {
  for (const char* text :
       {"",    ".",  "1.", ".5",  "-1",  "+1",  "0",     "0.0",        "0.000000000",  "1e3", "1.5e-1",
        "1,5", " 1", "1 ", "0x1", "nan", "inf", "1.2.3", "1234567890", "0.1234567891", "1\n", "one"})
    EXPECT_FALSE(decimal_of(text)) << text;
  EXPECT_FALSE(decimal_of(std::string(10000, '1')));
  EXPECT_FALSE(decimal_of(std::string_view("1\0", 2)));
}

}  // namespace trainyard::base

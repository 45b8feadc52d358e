// Tests views: rows, columns, pitches, and reshapes that are refused.
#include "libtrain/base/view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace trainyard::base {
namespace {

TEST(View, LeadingDimsFoldIntoRows) {
  std::vector<float> x(24);
  const auto v = View::of(x.data(), {2, 3, 4});
  EXPECT_EQ(v.rows(), 6);
  EXPECT_EQ(v.cols(), 4);
  EXPECT_EQ(v.count(), 24);
  EXPECT_EQ(v.bytes(), 96);
  EXPECT_TRUE(v.dense());
  EXPECT_EQ(View::of(x.data(), {24}).rows(), 1);
}

TEST(View, TheEmptyViewHoldsNothing) {
  const View v;
  EXPECT_FALSE(v);
  EXPECT_EQ(v.count(), 0);
  EXPECT_EQ(v.rows(), 0);
}

TEST(View, SlicesShareMemory) {
  std::vector<float> x(20);
  std::iota(x.begin(), x.end(), 0.0f);
  const auto v = View::of(x.data(), {4, 5}), slice = v.columns(1, 3), part = slice.row_range(2, 2);
  EXPECT_FALSE(slice.dense());
  EXPECT_EQ(slice.pitch, 5);
  EXPECT_EQ(slice.count(), 12);
  EXPECT_EQ(slice.row<float>(3)[0], 16);
  EXPECT_EQ(part.rows(), 2);
  EXPECT_EQ(part.row<float>(1)[2], 18);
  EXPECT_TRUE(slice.row_range(1, 1).dense()) << "one row has no gap";
}

TEST(View, ConvertsToAViewToRead) {
  std::vector<float> x(20);
  std::iota(x.begin(), x.end(), 0.0f);
  const auto v = View::of(x.data(), {4, 5});
  const ConstView read = v.columns(1, 3);
  static_assert(std::is_same_v<decltype(read.row<float>(0)), const float*>);
  static_assert(std::is_same_v<decltype(read.columns(0, 1)), ConstView>);
  static_assert(std::is_convertible_v<View, ConstView> && !std::is_constructible_v<View, ConstView>);
  EXPECT_EQ(read.data, v.columns(1, 3).data);
  EXPECT_EQ(read.pitch, 5);
  EXPECT_EQ(read.cols(), 3);
  EXPECT_EQ(read.row_range(2, 2).row<float>(1)[2], 18);
  const auto& constant = x;
  static_assert(std::is_same_v<decltype(View::of(constant.data(), {20})), ConstView>);
  EXPECT_EQ(v.elements(7, 3).row<float>(0)[2], 9);
  EXPECT_EQ(v.elements(7, 3).dims, 1);
  EXPECT_EQ(View::of(constant.data(), {2, 10}).reshaped({5, 4}).row<float>(1)[0], 4);
}

TEST(View, RefusesAnotherTypeAndImpossibleShapes) {
  std::vector<float> x(20);
  const auto v = View::of(x.data(), {4, 5});
  EXPECT_ANY_THROW(v.ptr<double>());
  EXPECT_ANY_THROW(v.reshaped({3, 7}));
  EXPECT_ANY_THROW(v.columns(0, 3).reshaped({12}));
  EXPECT_EQ(v.reshaped({2, 10}).rows(), 2);
}

}  // namespace
}  // namespace trainyard::base

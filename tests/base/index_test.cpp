// Tests signed sizes and indices: which element they give, and what a debug build refuses.
#include "libtrain/base/index.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace trainyard::base {
namespace {

TEST(Index, GivesTheElementItself) {
  std::vector<int> x{3, 5, 7};
  at(x, 1) = 6;
  EXPECT_EQ(x, (std::vector<int>{3, 6, 7}));
  EXPECT_EQ(&at(x, std::int64_t{2}), x.data() + 2);
  EXPECT_EQ(at(std::span<const int>(x), 0), 3);
  constexpr std::array<int, 2> pair{1, 2};
  static_assert(at(pair, 1) == 2);
  static_assert(std::is_same_v<decltype(at(std::as_const(x), 0)), const int&>);
}

TEST(Index, ASizeIsTheNumber) {
  static_assert(size(7) == 7u && std::is_same_v<decltype(size(std::int64_t{7})), std::size_t>);
  EXPECT_EQ(std::vector<char>(size(std::int64_t{3})).size(), 3u);
}

TEST(Index, ADebugBuildRefusesWhatLiesOutside) {
#ifdef NDEBUG
  GTEST_SKIP() << "a release build does not check";
#else
  std::vector<int> x{3, 5, 7};
  EXPECT_THROW(at(x, 3), std::logic_error);
  EXPECT_THROW(at(x, -1), std::logic_error);
  EXPECT_THROW(size(-1), std::logic_error);
#endif
}

}  // namespace
}  // namespace trainyard::base

// Tests what a memo finds, and that it forgets.
#include "libtrain/base/memo.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::base {

TEST(Memo, FindsWhatItKeeps) {
  Memo<std::string, int> memo(10);
  EXPECT_EQ(memo.find("a"), nullptr);
  EXPECT_EQ(memo.keep("a", 1), 1);
  EXPECT_EQ(memo.keep("b", 2), 2);
  ASSERT_NE(memo.find("a"), nullptr);
  EXPECT_EQ(*memo.find("a"), 1);
  EXPECT_EQ(memo.keep("a", 3), 3);
  EXPECT_EQ(*memo.find("a"), 3);
}

TEST(Memo, ForgetsAllAtItsWeight) {
  Memo<int, int> memo(5);
  memo.keep(1, 1, 2), memo.keep(2, 2, 3);
  ASSERT_NE(memo.find(1), nullptr);
  memo.keep(3, 3, 100);  // heavier than all it keeps: it is kept until the next
  EXPECT_EQ(memo.find(1), nullptr);
  EXPECT_EQ(memo.find(2), nullptr);
  ASSERT_NE(memo.find(3), nullptr);
  memo.keep(4, 4);
  EXPECT_EQ(memo.find(3), nullptr);
  EXPECT_NE(memo.find(4), nullptr);
}

}  // namespace trainyard::base

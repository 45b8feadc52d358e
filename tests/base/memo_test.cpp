// Tests what a memo finds, and that it forgets.
#include "libtrain/base/memo.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace trainyard::base {

TEST(Memo, FindsWhatItKeeps) {
  Memo<std::string, int> memo(10);
  EXPECT_EQ(memo.find("a"), std::nullopt);
  EXPECT_EQ(memo.keep("a", 1), 1);
  EXPECT_EQ(memo.keep("b", 2), 2);
  EXPECT_EQ(memo.find("a"), 1);
  EXPECT_EQ(memo.keep("a", 3), 3);
  EXPECT_EQ(memo.find("a"), 3);
}

TEST(Memo, ForgetsAllAtItsWeight) {
  Memo<int, int> memo(5);
  memo.keep(1, 1, 2), memo.keep(2, 2, 3);
  EXPECT_EQ(memo.find(1), 1);
  memo.keep(3, 3, 100);  // heavier than all it keeps: it is kept until the next
  EXPECT_EQ(memo.find(1), std::nullopt);
  EXPECT_EQ(memo.find(2), std::nullopt);
  EXPECT_EQ(memo.find(3), 3);
  memo.keep(4, 4);
  EXPECT_EQ(memo.find(3), std::nullopt);
  EXPECT_EQ(memo.find(4), 4);
}

TEST(Memo, AThreadForgetsAllOfItsOwn) {
  using Shared = std::shared_ptr<const std::string>;
  Memo<int, Shared> words(10);
  Memo<int, int> numbers(10);
  const auto word = words.keep(1, std::make_shared<const std::string>("word"));
  numbers.keep(1, 1, 9);
  std::thread([] { forget_memos(); }).join();
  EXPECT_EQ(numbers.find(1), 1);
  { const Memo<int, int> gone(10); }
  forget_memos();
  EXPECT_EQ(words.find(1), std::nullopt);
  EXPECT_EQ(numbers.find(1), std::nullopt);
  EXPECT_EQ(*word, "word");  // whoever has it keeps it
  EXPECT_EQ(word.use_count(), 1);
  numbers.keep(2, 2, 5), numbers.keep(3, 3);  // the weight of what is forgotten counts no more
  EXPECT_EQ(numbers.find(2), 2);
}

}  // namespace trainyard::base

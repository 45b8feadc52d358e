// Tests what part of a set its windows cover: by hand, and against windows that are laid out one by one.
#include "libtrain/plan/data_use.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

namespace trainyard::plan {
namespace {

TEST(DataUse, CountsWhatWindowsTouch) {
  for (const std::int64_t sequence : {1, 2, 7, 16}) {
    std::vector<std::int64_t> shards;
    DataUse expected;
    for (std::int64_t tokens = 0; tokens < 40; ++tokens) {
      shards.push_back(tokens);
      std::set<std::int64_t> touched;
      for (std::int64_t first = 0; first + sequence < tokens; first += sequence, ++expected.windows)
        for (std::int64_t t = first; t <= first + sequence; ++t) touched.insert(t);
      expected.in_windows += static_cast<std::int64_t>(touched.size()), expected.tokens += tokens;
      const auto use = data_use(shards, sequence);
      EXPECT_EQ(use.windows, expected.windows) << sequence << " of " << tokens;
      EXPECT_EQ(use.in_windows, expected.in_windows) << sequence << " of " << tokens;
      EXPECT_EQ(use.tokens, expected.tokens);
    }
  }
}

TEST(DataUse, IsSaidInWords) {
  const std::array<std::int64_t, 2> shards{1025, 1024};
  const auto use = data_use(shards, 128);  // 8 and 7 windows
  EXPECT_EQ(data_use_text(use, 128), "data: 15 windows of 129 tokens, with 93.8 % of the training tokens");
  EXPECT_EQ(epochs_text(use, 10, 40), "in 10 steps each is read 2.667 times (epochs)");
  EXPECT_EQ(epochs_text(use, 10, 15), "in 10 steps each is read 1 times (epochs)");
  EXPECT_EQ(epochs_text(use, 1, 3), "1 step reads 20 % of them");
  EXPECT_EQ(epochs_text(use, 14, 14), "14 steps read 93.3 % of them");
  EXPECT_EQ(left_out_text(use, 128), "");
  const auto most = data_use(std::array<std::int64_t, 1>{100'001}, 99'999);
  EXPECT_EQ(data_use_text(most, 99'999), "data: 1 window of 100,000 tokens, with 99.9 % of the training tokens");
}

TEST(DataUse, WhatIsLeftOutIsAWarning) {
  const std::vector<std::int64_t> small(10, 250);  // one window of 129 tokens each
  const auto use = data_use(small, 128);
  EXPECT_EQ(left_out_text(use, 128).substr(0, 67),
            "48.4 % of the training tokens lie in no window of 129 tokens: a win");
  EXPECT_EQ(left_out_text(data_use(std::vector<std::int64_t>(3, 100), 128), 128).substr(0, 30),
            "no shard has the 129 tokens of");
  EXPECT_EQ(data_use(std::vector<std::int64_t>{}, 128).share(), 0);
}

}  // namespace
}  // namespace trainyard::plan

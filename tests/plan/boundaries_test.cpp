// Tests boundaries: the partitions of the literature, and every partition of short lists.
#include "libtrain/plan/schedule/boundaries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <tuple>

namespace trainyard::plan {
namespace {

TEST(Boundaries, EvenCutsGiveTheFirstPartsOneMore) {
  EXPECT_EQ(uniform_boundaries(10, 4), (Boundaries{0, 3, 6, 8, 10}));
  EXPECT_EQ(uniform_boundaries(26, 8), (Boundaries{0, 4, 8, 11, 14, 17, 20, 23, 26}));
  EXPECT_EQ(uniform_boundaries(2, 4), (Boundaries{0, 1, 2, 2, 2}));
  EXPECT_THROW(uniform_boundaries(2, 0), std::invalid_argument);
}

double heaviest(std::span<const double> weights, int parts) {
  const auto of_parts = part_weights(weights, balanced_boundaries(weights, parts));
  return *std::max_element(of_parts.begin(), of_parts.end());
}

TEST(Boundaries, KnownOptima) {
  EXPECT_EQ(heaviest(std::vector<double>{0, 1, 2, 3, 3, 3}, 4), 3);
  EXPECT_EQ(heaviest(std::vector<double>{2, 0, 0, 8, 2, 2, 1, 1, 2}, 3), 8);  // a search by halves would give 10
}

// BLOOM 176B in bf16: 70 blocks of 4.93 GB between two tables of 7.19 GB, on 12 stages.
TEST(Boundaries, TablesCountAsItemsSoThatAHugeVocabularyDoesNotOverloadTheEnds) {
  std::vector<double> weights(72, 4.93e9);
  weights.front() = weights.back() = 7.19e9;
  Boundaries six{0};
  for (int i = 0; i < 12; ++i) six.push_back(six.back() + 6);
  EXPECT_EQ(balanced_boundaries(weights, 12), six);
}

TEST(Boundaries, WhatCannotBeCutIsRefused) {
  EXPECT_THROW(balanced_boundaries(std::vector<double>{1, 2}, 3), std::invalid_argument);
  EXPECT_THROW(balanced_boundaries(std::vector<double>{1, 2}, 0), std::invalid_argument);
  EXPECT_THROW(balanced_boundaries(std::vector<double>{1, -2}, 1), std::invalid_argument);
  EXPECT_THROW(balanced_boundaries(std::vector<double>{1, 0.0 / 0.0}, 1), std::invalid_argument);
}

// Tries all partitions into non-empty parts. Best is the lightest heaviest part, then the heaviest lightest part, then
// the earliest partition.
Boundaries best_of_all(std::span<const double> weights, int parts) {
  const auto n = static_cast<std::int64_t>(weights.size());
  std::optional<std::tuple<double, double, Boundaries>> best;
  const std::function<void(Boundaries)> go = [&](Boundaries cut) {
    const auto left = parts - static_cast<int>(cut.size()) + 1;
    if (left == 0) {
      if (cut.back() != n) return;
      const auto w = part_weights(weights, cut);
      const std::tuple key{*std::max_element(w.begin(), w.end()), -*std::min_element(w.begin(), w.end()), cut};
      if (!best || key < *best) best = key;
      return;
    }
    for (auto next = cut.back() + 1; next <= n; ++next) {
      cut.push_back(next);
      go(cut);
      cut.pop_back();
    }
  };
  go({0});
  return std::get<2>(*best);
}

TEST(Boundaries, AgreeWithEveryCutOfShortLists) {
  std::mt19937 random(14);
  int cases = 0;
  for (int n = 1; n <= 10; ++n)
    for (int parts = 1; parts <= n; ++parts)
      for (int repeat = 0; repeat < 12; ++repeat, ++cases) {
        // Small whole numbers, so that many partitions are equally heavy.
        std::vector<double> weights(static_cast<std::size_t>(n));
        for (auto& w : weights) w = std::uniform_int_distribution<int>(0, repeat < 6 ? 3 : 100)(random);
        EXPECT_EQ(balanced_boundaries(weights, parts), best_of_all(weights, parts))
            << ::testing::PrintToString(weights);
      }
  EXPECT_EQ(cases, 55 * 12);
}

// As many cells as --partition allows, four times. A search that starts again for each part would take minutes.
TEST(Boundaries, DeepModelsAreCutInAMoment) {
  std::mt19937 random(7);
  std::vector<double> weights(10'000);
  for (int parts = 400; parts > 376; parts -= 6) {
    for (auto& w : weights) w = std::uniform_real_distribution<double>(1e9, 2e9)(random);
    const auto cut = balanced_boundaries(weights, parts);
    ASSERT_EQ(cut.size(), static_cast<std::size_t>(parts) + 1);
    const auto w = part_weights(weights, cut);
    EXPECT_LT(*std::max_element(w.begin(), w.end()), 1.1 * 1.5e9 * 10'000 / parts);
  }
}

TEST(Boundaries, EqualItemsAreCutEvenly) {
  for (int parts = 1; parts <= 9; ++parts) {
    const auto cut = balanced_boundaries(std::vector<double>(50, 1e9), parts);
    for (std::size_t i = 0; i + 1 < cut.size(); ++i) {
      EXPECT_GE(cut[i + 1] - cut[i], 50 / parts);
      EXPECT_LE(cut[i + 1] - cut[i], (50 + parts - 1) / parts);
    }
  }
}

}  // namespace
}  // namespace trainyard::plan

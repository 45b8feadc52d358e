// The sampler compared with the softmax, and its top-k and top-p compared with their definitions.
#include "tools/generate/sampler.h"

#include "libtrain/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace trainyard::test {
namespace {

TEST(Sampler, FollowsTheSoftmax) {
  const std::vector<float> logits{0.5f, -1.0f, 2.0f, 0.0f};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    generate::Sampler sampler({temperature, 0, 5, 1});
    std::vector<double> seen(4, 0), want(4);
    const int draws = 40000;
    for (int i = 0; i < draws; ++i)
      ++seen[static_cast<std::size_t>(sampler.next(logits, static_cast<std::uint64_t>(i)))];
    for (std::size_t i = 0; i < 4; ++i) want[i] = std::exp(logits[i] / temperature);
    const double sum = std::accumulate(want.begin(), want.end(), 0.0);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(seen[i] / draws, want[i] / sum, 0.012) << temperature << " " << i;
  }
}

TEST(Sampler, GreedyAndTopK) {
  const std::vector<float> logits{0.5f, 2.0f, 2.0f, 1.0f};
  generate::Sampler greedy({0, 0, 5, 1}), two({1, 2, 5, 1});
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(greedy.next(logits, i), 1);
    const auto t = two.next(logits, i);
    EXPECT_TRUE(t == 1 || t == 2) << t;
  }
}

// The most likely tokens, in order, until their probabilities reach p; found by sorting all tokens.
std::map<std::int32_t, double> nucleus_of(const std::vector<float>& logits, double temperature, std::size_t top_k,
                                          double p) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  if (top_k > 0) order.resize(std::min(top_k, order.size()));
  double sum = 0, reached = 0;
  for (const auto t : order) sum += std::exp(logits[static_cast<std::size_t>(t)] / temperature);
  std::map<std::int32_t, double> kept;
  for (const auto t : order) {
    if (reached >= p * sum) break;
    kept[t] = std::exp(logits[static_cast<std::size_t>(t)] / temperature);
    reached += kept[t];
  }
  for (auto& [token, weight] : kept) weight /= reached;
  return kept;
}

TEST(Sampler, TopPIsTheNucleus) {
  for (const std::size_t n : {7u, 300u}) {
    std::vector<float> logits(n);
    base::fill_normal(logits.data(), static_cast<std::int64_t>(n), 8, "logits", 0, 2.0);
    for (const double p : {1e-9, 0.3, 0.8, 0.99}) {
      for (const std::int64_t k : {0, 5}) {
        const auto want = nucleus_of(logits, 1.3, static_cast<std::size_t>(k), p);
        generate::Sampler sampler({1.3, k, 17, p});
        std::map<std::int32_t, double> seen;
        const int draws = 20000;
        for (int i = 0; i < draws; ++i) seen[sampler.next(logits, static_cast<std::uint64_t>(i))] += 1.0 / draws;
        for (const auto& [token, share] : seen)
          EXPECT_TRUE(want.contains(token)) << token << " of " << n << ", p " << p << ", k " << k;
        for (const auto& [token, share] : want)
          EXPECT_NEAR(seen[token], share, 0.015) << token << " of " << n << ", p " << p << ", k " << k;
      }
    }
  }
}

TEST(Sampler, WhatIsExcludedIsNeverDrawn) {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits{never, 1, 0, never, 1.5f, never};
  for (const double p : {1.0, 0.999}) {
    for (const double temperature : {0.0, 1e-300, 0.5, 100.0}) {
      generate::Sampler sampler({temperature, 0, 3, p});
      for (std::uint64_t i = 0; i < 2000; ++i) {
        const auto t = sampler.next(logits, i);
        ASSERT_TRUE(t == 1 || t == 2 || t == 4) << t;
        ASSERT_TRUE(t == 4 || temperature > 0.1) << t;
      }
    }
  }
}

TEST(Sampler, LogProbability) {
  const std::vector<float> logits{0.5f, -1.0f, 2.0f, 0.0f};
  double sum = 0;
  for (std::int32_t t = 0; t < 4; ++t) {
    const double got = generate::log_probability(logits, t);
    EXPECT_NEAR(got,
                logits[static_cast<std::size_t>(t)] - std::log(std::exp(0.5) + std::exp(-1.0) + std::exp(2.0) + 1.0),
                1e-12);
    sum += std::exp(got);
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NEAR(generate::log_probability(std::vector<float>{1e4f, 0}, 1), -1e4, 1e-9);
}

}  // namespace
}  // namespace trainyard::test

// Mixtures: what the user names, which set has which sequence, and each set's samples in their own order.
#include "tests/data/sample.h"
#include "tests/refusal.h"

#include "libtrain/base/error.h"
#include "libtrain/data/mixed_windows.h"
#include "libtrain/data/mixture.h"
#include "libtrain/data/window_dataset.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <set>

using namespace sample;

namespace mixture_test {

using trainyard::data::Mixture;
using trainyard::data::NamedSet;
using trainyard::testing::refusal_of;

std::string refused(const std::string& text) {
  return refusal_of<base::UsageError>([&] { data::sets_of(text, "--data"); });
}

TEST(Mixtures, NamesAreFoldersWeightsAndEpochs) {
  const auto sets = [](const std::string& text) { return data::sets_of(text, "--data"); };
  const auto named = [](const std::string& folder, const std::string& weight, std::optional<double> epochs) {
    return NamedSet{.folder = folder, .weight = weight, .epochs = epochs};
  };
  EXPECT_EQ(sets("wiki"), (std::vector<NamedSet>{named("wiki", "", {})}));
  EXPECT_EQ(sets("wiki:0.70,/data/code:0.3:2"),
            (std::vector<NamedSet>{named("wiki", "0.7", {}), named("/data/code", "0.3", 2.0)}));
  EXPECT_EQ(sets("wiki::1.5, code"), (std::vector<NamedSet>{named("wiki", "", 1.5), named("code", "", {})}));
  EXPECT_EQ(sets("host:data:7"), (std::vector<NamedSet>{named("host:data", "7", {})}));
  Scratch scratch;
  const auto odd = scratch.path + "/a:0.5,b";
  fs::create_directories(odd);
  EXPECT_EQ(sets(odd), (std::vector<NamedSet>{named(odd, "", {})}));
  EXPECT_TRUE(data::is_one_folder(odd));
  EXPECT_FALSE(data::is_one_folder("a:0.5,b:1"));
  EXPECT_EQ(data::first_folder("a:0.5,b:1"), "a");
  EXPECT_EQ(data::joined_sets({"a:7", "b:3:2"}), "a:7,b:3:2");
  EXPECT_EQ(data::joined_sets({"a", "b:3"}), "a,b:3");  // refused later: weights for one of two
  EXPECT_EQ(data::joined_sets({"a", "b"}), "a,b");
  EXPECT_EQ(data::joined_sets({"a", "a"}), std::nullopt);
}

TEST(Mixtures, WhatIsNoMixtureIsRefused) {
  EXPECT_EQ(refused("a:0,b:1"),
            "--data a:0: the weight \"0\" is no number above 0 and up to 1000000, with at most six decimals");
  EXPECT_NE(refused("a:0.0000001,b:1"), "");
  EXPECT_NE(refused("a:1000001,b:1"), "");
  EXPECT_NE(refused("a:1:0,b:1"), "");
  EXPECT_EQ(refused("a:1,b"), "--data a:1,b has weights for 1 of 2 sets");
  EXPECT_EQ(refused("a:1,b:2,a:3"), "--data names a twice");
  std::string many = "a0:1";
  for (int i = 1; i <= data::most_sets; ++i) many += fmt::format(",a{}:1", i);
  EXPECT_EQ(refused(many), "--data names 65 sets, at most 64 are mixed");
}

TEST(Mixtures, WeightsAreExact) {
  EXPECT_EQ(data::weights_of(std::vector<std::string>{"0.7", "0.3"}), (std::vector<std::int64_t>{7, 3}));
  EXPECT_EQ(data::weights_of(std::vector<std::string>{"0.333333", "2", "1.5"}),
            (std::vector<std::int64_t>{333333, 2000000, 1500000}));
  // Sizes 1 to 16: temperature 1 is 1 to 16, 2 is 1 to 4, and a high one nearly even.
  const std::vector<std::int64_t> sizes{1000, 16000};
  EXPECT_EQ(data::weights_of_sizes(sizes, 1), (std::vector<std::int64_t>{1, 16}));
  EXPECT_EQ(data::weights_of_sizes(sizes, 2), (std::vector<std::int64_t>{1, 4}));
  const auto even = data::weights_of_sizes(sizes, 1000);
  EXPECT_NEAR(static_cast<double>(even[0]) / static_cast<double>(even[1]), std::pow(1.0 / 16, 1e-3), 1e-6);
}

// Against a count by hand: each sequence in turn, with nothing but what the rule promises.
TEST(Mixtures, EverySequenceIsTheNextOfItsSet) {
  for (const auto& weights : std::vector<std::vector<std::int64_t>>{
           {1}, {7, 3}, {1, 1}, {1, 999}, {5, 1, 1, 1}, {1, 2, 3, 4, 5, 6, 7}, {333333, 2000000, 1500000}})
    for (const std::uint64_t seed : {1u, 2u, 77u}) {
      const Mixture mixture(weights, seed);
      const auto total = static_cast<std::uint64_t>(std::accumulate(weights.begin(), weights.end(), std::int64_t{0}));
      std::vector<std::uint64_t> counts(weights.size());
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(3 * total, 5000); ++i) {
        ASSERT_EQ(mixture.counts(i), counts) << i;
        for (std::size_t k = 0; k < weights.size(); ++k)
          ASSERT_LT(
              std::abs(static_cast<double>(counts[k]) - static_cast<double>(i) * mixture.share(static_cast<int>(k))),
              static_cast<double>(weights.size()))
              << "set " << k << " before " << i;
        for (std::size_t k = 0; i % total == 0 && k < weights.size(); ++k)
          ASSERT_EQ(counts[k], i / total * static_cast<std::uint64_t>(weights[k]));
        const auto sample = mixture.of(i);
        ASSERT_EQ(sample.ordinal, counts[static_cast<std::size_t>(sample.set)]++) << i;
      }
    }
}

// Far into a run, where products of an index and a weight pass 64 bits.
TEST(Mixtures, CountsHoldForTheLongestRun) {
  const std::vector<std::int64_t> weights{999'999'999'999, 1, 500'000'000'000};
  const Mixture mixture(weights, 5);
  for (const std::uint64_t at : {std::uint64_t{1} << 40, std::uint64_t{1} << 62}) {
    const auto before = mixture.counts(at), after = mixture.counts(at + 1);
    EXPECT_EQ(std::accumulate(before.begin(), before.end(), std::uint64_t{0}), at);
    const auto sample = mixture.of(at);
    for (int k = 0; k < 3; ++k) {
      const auto i = static_cast<std::size_t>(k);
      EXPECT_EQ(after[i] - before[i], k == sample.set ? 1u : 0u);
      const auto exact = static_cast<long double>(at) * static_cast<long double>(weights[i]) / 1'500'000'000'000.0L;
      EXPECT_NEAR(static_cast<double>(static_cast<long double>(before[i]) - exact), 0, 3);
    }
  }
}

// The seed decides which set begins, and nothing else.
TEST(Mixtures, SeedsBeginOtherwise) {
  std::set<int> first;
  std::vector<int> orders;
  for (std::uint64_t seed = 0; seed < 40; ++seed) first.insert(Mixture({1, 1, 1}, seed).of(0).set);
  EXPECT_EQ(first.size(), 3u);
}

// Turns of several sequences are the sequences of the plain mixture, each as many times.
TEST(Mixtures, SequencesOfATurnComeFromOneSet) {
  for (const auto& weights : std::vector<std::vector<std::int64_t>>{{1}, {7, 3}, {5, 1, 1, 1}, {1, 2, 3}})
    for (const std::int64_t together : {1, 2, 7, 64}) {
      const Mixture plain(weights, 9), mixture(weights, 9, together);
      EXPECT_EQ(mixture.together(), together);
      const auto n = static_cast<std::uint64_t>(together);
      std::vector<std::uint64_t> counts(weights.size());
      for (std::uint64_t i = 0; i < 40 * n; ++i) {
        ASSERT_EQ(mixture.counts(i), counts) << i;
        const auto sample = mixture.of(i);
        ASSERT_EQ(sample.set, plain.of(i / n).set) << i;
        ASSERT_EQ(sample.ordinal, counts[static_cast<std::size_t>(sample.set)]++) << i;
        ASSERT_TRUE(weights.size() > 1 || sample.ordinal == i);
      }
    }
  // 20 steps of 64 in the proportions 7 and 3.
  EXPECT_EQ(Mixture({7, 3}, 2, 64).counts(20 * 64), (std::vector<std::uint64_t>{14 * 64, 6 * 64}));
}

struct Window {
  std::vector<std::int32_t> tokens, targets, positions, starts;
  std::vector<std::uint8_t> weights;
  bool operator==(const Window&) const = default;
};

Window window_at(data::WindowSource& set, std::uint64_t ordinal) {
  const auto n = static_cast<std::size_t>(set.sequence());
  Window w{std::vector<std::int32_t>(n), std::vector<std::int32_t>(n), std::vector<std::int32_t>(n),
           std::vector<std::int32_t>(n), std::vector<std::uint8_t>(n)};
  set.fill(ordinal, {w.tokens.data(), w.targets.data(), w.positions.data(), w.starts.data(), w.weights.data()});
  return w;
}

TEST(Mixtures, ASetHasItsOwnOrderAndEpochs) {
  Scratch one, two;
  const Numbers tokenizer(5000);
  const auto all = documents(tokenizer, 90, 40);
  const auto first = write_set(one.path, tokenizer, {all.begin(), all.begin() + 60}, 300),
             second = write_set(two.path, tokenizer, {all.begin() + 60, all.end()}, 300);
  const data::WindowDataset::Windows keyed{
      .sequence = 12, .mask = data::DocumentMask::on, .order = data::Order::keyed, .seed = 3, .open = 2};
  std::deque<data::WindowDataset> sets, apart;
  for (auto* of : {&sets, &apart}) {
    of->emplace_back(one.path, first, first.train, keyed);
    of->emplace_back(two.path, second, second.train, keyed);
  }
  data::MixedWindows mixed({&sets[0], &sets[1]}, Mixture({2, 3}, 3));
  std::vector<std::uint64_t> next(2);
  const auto length = 4 * (apart[0].count() + apart[1].count());
  std::vector<Window> seen;
  for (std::uint64_t i = 0; i < length; ++i) {
    const auto k = static_cast<std::size_t>(mixed.mixture().of(i).set);
    seen.push_back(window_at(mixed, i));
    ASSERT_EQ(seen.back(), window_at(apart[k], next[k]++)) << i;
  }
  EXPECT_GT(next[1], 2 * apart[1].count());  // its later epochs, too
  for (std::uint64_t i = length; i-- > 0;) ASSERT_EQ(window_at(mixed, i), seen[i]);
  data::ConsecutiveWindows both({&sets[0], &sets[1]}, {3, 2});
  for (std::uint64_t i = 0; i < 5; ++i)
    EXPECT_EQ(window_at(both, i), i < 3 ? window_at(apart[0], i) : window_at(apart[1], i - 3));
}

}  // namespace mixture_test

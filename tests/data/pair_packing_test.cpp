// Tests rows of pairs: every pair once and whole, a second implementation without a tree, how full rows are, and the
// ranges that attention gets.
#include "libtrain/data/pair_packing.h"
#include "libtrain/base/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

namespace {

namespace base = trainyard::base;
namespace data = trainyard::data;

// Lengths as pairs of sentences have them: a target is about as long as its source.
std::vector<data::PairLength> sentence_pairs(std::size_t count, const data::RowShape& most, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::vector<data::PairLength> out(count);
  for (auto& p : out) {
    const double length = 4 * std::exp(3.2 * uniform() * uniform() + 1);
    const auto side = [&](std::int64_t longest) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(length * (0.6 + 0.8 * uniform())), 1, longest);
    };
    p = {side(most.source), side(most.target)};
  }
  return out;
}

void expect_packing(const std::vector<data::PairLength>& pairs, const data::RowShape& shape,
                    const data::PairRows& rows) {
  std::vector<int> seen(pairs.size(), 0);
  std::int64_t before = -1;
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    data::PairLength sum;
    ASSERT_FALSE(rows.row(r).empty());
    ASSERT_TRUE(std::is_sorted(rows.row(r).begin(), rows.row(r).end()));
    ASSERT_GT(rows.row(r).front(), before);
    before = rows.row(r).front();
    for (const auto p : rows.row(r)) {
      ++seen.at(static_cast<std::size_t>(p));
      sum.source += pairs[static_cast<std::size_t>(p)].source, sum.target += pairs[static_cast<std::size_t>(p)].target;
    }
    ASSERT_TRUE(sum.source <= shape.source && sum.target <= shape.target) << r;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), std::ssize(pairs));
}

// The rule as it is written, by looking at all rows for every pair.
data::PairRows plain_packing(const std::vector<data::PairLength>& pairs, const data::RowShape& shape) {
  long double source = 0, target = 0;
  for (const auto& p : pairs)
    source += static_cast<long double>(p.source), target += static_cast<long double>(p.target);
  const bool by_source =
      source / static_cast<long double>(shape.source) >= target / static_cast<long double>(shape.target);
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto share = [&](std::size_t p) { return pairs[p].source * shape.target + pairs[p].target * shape.source; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return share(a) > share(b); });
  struct Row {
    std::int64_t source, target;
    std::vector<std::int64_t> pairs;
  };
  std::vector<Row> rows;
  for (const auto p : order) {
    Row* best = nullptr;
    const auto rank = [&](const Row& r) {
      return by_source ? std::pair(r.source, r.target) : std::pair(r.target, r.source);
    };
    for (auto& row : rows)
      if (row.source >= pairs[p].source && row.target >= pairs[p].target && (!best || rank(row) < rank(*best)))
        best = &row;
    if (!best) best = &rows.emplace_back(Row{shape.source, shape.target, {}});
    best->source -= pairs[p].source, best->target -= pairs[p].target;
    best->pairs.push_back(static_cast<std::int64_t>(p));
  }
  for (auto& row : rows) std::sort(row.pairs.begin(), row.pairs.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.pairs[0] < b.pairs[0]; });
  data::PairRows out;
  for (const auto& row : rows) {
    out.pairs.insert(out.pairs.end(), row.pairs.begin(), row.pairs.end());
    out.first.push_back(std::ssize(out.pairs));
  }
  return out;
}

}  // namespace

TEST(PairPacking, IsTheRuleAsItIsWritten) {
  for (const data::RowShape shape : {data::RowShape{512, 512}, {100, 300}, {256, 64}, {1, 1}, {7, 1000}})
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      const auto pairs = sentence_pairs(seed * 20, shape, seed);
      const auto rows = data::pack_pairs(pairs, shape);
      expect_packing(pairs, shape, rows);
      ASSERT_EQ(rows, plain_packing(pairs, shape)) << shape.source << " " << shape.target << " " << seed;
      ASSERT_GE(rows.count(), data::least_rows(pairs, shape));
    }
}

TEST(PairPacking, RowsAreFull) {
  for (const data::RowShape shape : {data::RowShape{512, 512}, {512, 600}, {256, 256}, {1024, 1024}}) {
    const auto pairs = sentence_pairs(50'000, shape, 7);
    const auto rows = data::pack_pairs(pairs, shape);
    const auto fill = static_cast<double>(data::least_rows(pairs, shape)) / static_cast<double>(rows.count());
    EXPECT_GT(fill, 0.97) << shape.source << " " << shape.target;
  }
}

TEST(PairPacking, AMillionPairs) {
  const data::RowShape shape{512, 512};
  const auto pairs = sentence_pairs(1'000'000, shape, 3);
  expect_packing(pairs, shape, data::pack_pairs(pairs, shape));
}

TEST(PairPacking, OddCases) {
  EXPECT_EQ(data::pack_pairs({}, {10, 10}).count(), 0);
  const std::vector<data::PairLength> whole(5, {10, 20});
  EXPECT_EQ(data::pack_pairs(whole, {10, 20}).count(), 5);
  EXPECT_EQ(data::pack_pairs(whole, {50, 100}).count(), 1);
  // A side that is full closes a row, whatever the other has left.
  const std::vector<data::PairLength> thin(4, {1, 5});
  EXPECT_EQ(data::pack_pairs(thin, {100, 10}).count(), 2);
}

TEST(PairPacking, RefusesPairsThatFitNoRow) {
  const auto refused = [](std::vector<data::PairLength> pairs, data::RowShape shape) {
    try {
      data::pack_pairs(pairs, shape);
    } catch (const base::InputError& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(refused({{1, 1}, {11, 1}}, {10, 10}).find("pair 1 has 11 source and 1 target tokens"), std::string::npos);
  EXPECT_NE(refused({{1, 12}}, {10, 10}).find("pair 0 has 1 source and 12 target tokens"), std::string::npos);
  EXPECT_NE(refused({{0, 1}}, {10, 10}).find("pair 0 has 0"), std::string::npos);
  EXPECT_NE(refused({{1, 0}}, {10, 10}).find("pair 0 has 1 source and 0"), std::string::npos);
  EXPECT_THROW(data::pack_pairs({}, {0, 10}), base::UsageError);
}

TEST(PairPacking, RowsHaveRangesForAttention) {
  const std::vector<data::PairLength> pairs{{2, 3}, {3, 1}};
  const data::RowShape shape{7, 6};
  std::vector<std::int32_t> s[3], t[5];
  for (auto& a : s) a.assign(7, -7);
  for (auto& a : t) a.assign(6, -7);
  std::vector<std::uint8_t> weights(6, 9);
  data::fill_pair_row(pairs, shape,
                      {s[0].data(), s[1].data(), s[2].data(), t[0].data(), t[1].data(), t[2].data(), t[3].data(),
                       t[4].data(), weights.data()});
  using Row = std::vector<std::int32_t>;
  EXPECT_EQ(s[0], (Row{0, 1, 0, 1, 2, 0, 0}));
  EXPECT_EQ(s[1], (Row{0, 0, 2, 2, 2, 5, 6}));
  EXPECT_EQ(s[2], (Row{2, 2, 5, 5, 5, 6, 7}));
  EXPECT_EQ(t[0], (Row{0, 1, 2, 0, 0, 0}));
  EXPECT_EQ(t[1], (Row{0, 0, 0, 3, 4, 5}));
  EXPECT_EQ(t[2], (Row{3, 3, 3, 4, 5, 6}));
  EXPECT_EQ(t[3], (Row{0, 0, 0, 2, 6, 6}));
  EXPECT_EQ(t[4], (Row{2, 2, 2, 5, 7, 7}));
  EXPECT_EQ(weights, (std::vector<std::uint8_t>{1, 1, 1, 1, 0, 0}));
}

TEST(PairPacking, DecodersSeeTheTargetBefore) {
  const std::vector<data::PairLength> pairs{{2, 3}, {3, 1}, {1, 2}};
  const std::vector<std::int32_t> targets{11, 12, 1, 1, 31, 1, -7, -7};
  std::vector<std::int32_t> inputs(8, -9);
  data::shift_targets(pairs, {7, 8}, 0, targets.data(), inputs.data());
  EXPECT_EQ(inputs, (std::vector<std::int32_t>{0, 11, 12, 0, 0, 31, 0, 0}));
}

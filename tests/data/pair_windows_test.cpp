// Tests rows of pairs read from shards: every pair once in an epoch, each token as if its pair were alone, orders, and
// what is left out or refused.
#include "tests/data/pair_sample.h"
#include "tests/refusal.h"

#include "libtrain/base/error.h"
#include "libtrain/data/pair_windows.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace pair_windows_test {

using namespace pair_sample;
using data::Order;
using data::PairWindows;
using trainyard::testing::refusal_of;

constexpr std::int32_t start = 4321;

// The numbers of the pairs of a row, in their order. Every place of the row is compared with the pair as it is alone:
// self-attention of both stacks sees its own side, attention across them sees its own source, and positions count from
// its beginning.
std::vector<int> pairs_of(const Row& row, const std::vector<Pair>& all, std::int32_t end) {
  const auto T = row.tokens.size(), S = row.source.size();
  std::vector<int> out;
  std::size_t t = 0, s = 0;
  while (t < T && row.weights[t] == 1) {
    const auto p = static_cast<std::size_t>(row.targets[t]);
    const auto& [source, target, language] = all.at(p);
    out.push_back(static_cast<int>(p));
    EXPECT_LE(t + target.size(), T);
    EXPECT_LE(s + source.size(), S);
    for (std::size_t i = 0; i < target.size(); ++i) {
      EXPECT_EQ(row.targets[t + i], target[i]);
      EXPECT_EQ(row.tokens[t + i], i == 0 ? start : target[i - 1]);
      EXPECT_EQ(row.positions[t + i], static_cast<std::int32_t>(i));
      EXPECT_EQ(row.weights[t + i], 1);
      EXPECT_EQ(row.starts[t + i], static_cast<std::int32_t>(t));
      EXPECT_EQ(row.key_end[t + i], static_cast<std::int32_t>(t + target.size()));
      const Document seen(row.source.begin() + row.seen_begin[t + i], row.source.begin() + row.seen_end[t + i]);
      EXPECT_EQ(seen, source);
    }
    for (std::size_t i = 0; i < source.size(); ++i) {
      EXPECT_EQ(row.source_positions[s + i], static_cast<std::int32_t>(i));
      const Document seen(row.source.begin() + row.source_begin[s + i], row.source.begin() + row.source_end[s + i]);
      EXPECT_EQ(seen, source);
    }
    t += target.size(), s += source.size();
  }
  for (; t < T; ++t) {
    EXPECT_EQ(row.weights[t], 0);
    EXPECT_EQ(row.targets[t], end);
    EXPECT_EQ(row.tokens[t], start);
    EXPECT_EQ(row.positions[t], 0);
    EXPECT_EQ(row.starts[t], static_cast<std::int32_t>(t));
    EXPECT_EQ(row.key_end[t], static_cast<std::int32_t>(t + 1));
    EXPECT_EQ(row.seen_begin[t], static_cast<std::int32_t>(S - 1));
    EXPECT_EQ(row.seen_end[t], static_cast<std::int32_t>(S));
  }
  for (; s < S; ++s) {
    EXPECT_EQ(row.source[s], end);
    EXPECT_EQ(row.source_positions[s], 0);
    EXPECT_EQ(row.source_begin[s], static_cast<std::int32_t>(s));
    EXPECT_EQ(row.source_end[s], static_cast<std::int32_t>(s + 1));
  }
  return out;
}

class PairRowsOfASet : public ::testing::Test {
 protected:
  PairRowsOfASet() : all(pairs(tokenizer, 400, 30)) { index = write_pairs(scratch.path, tokenizer, all, 3000); }

  PairWindows open(std::int64_t sequence, std::int64_t source_sequence, Order order = Order::keyed,
                   std::uint64_t seed = 3, int files = 2, const std::string& language = "") {
    return {scratch.path,
            index,
            index.train,
            {.sequence = sequence,
             .source_sequence = source_sequence,
             .order = order,
             .seed = seed,
             .start = start,
             .open = files,
             .field = language.empty() ? "" : "target_language",
             .value = language}};
  }
  // The pairs of each row of an epoch, sorted where the order of rows is not wanted.
  std::vector<std::vector<int>> epoch(PairWindows& set, std::uint64_t e) {
    std::vector<std::vector<int>> out;
    for (std::uint64_t i = 0; i < set.count(); ++i)
      out.push_back(pairs_of(row_at(set, e * set.count() + i), all, tokenizer.end_of_document()));
    return out;
  }
  // Which pairs these rows have, ascending.
  static std::vector<int> in(const std::vector<std::vector<int>>& rows) {
    std::vector<int> out;
    for (const auto& row : rows) out.insert(out.end(), row.begin(), row.end());
    std::sort(out.begin(), out.end());
    return out;
  }
  std::vector<int> numbers(const std::function<bool(const Pair&)>& wanted) const {
    std::vector<int> out;
    for (std::size_t p = 0; p < all.size(); ++p)
      if (wanted(all[p])) out.push_back(static_cast<int>(p));
    return out;
  }

  Scratch scratch;
  const Numbers tokenizer{5000};
  std::vector<Pair> all;
  data::SetIndex index;
};

TEST_F(PairRowsOfASet, EveryPairIsThereOnceInAnEpochAsIfItWereAlone) {
  ASSERT_GE(index.train.size(), 3u);
  for (const auto& [T, S] : std::vector<std::pair<std::int64_t, std::int64_t>>{{64, 64}, {32, 200}, {500, 31}})
    for (const auto order : {Order::keyed, Order::as_stored}) {
      auto set = open(T, S, order);
      EXPECT_EQ(set.pairs(), 400);
      EXPECT_EQ(set.left_out(), 0);
      for (const std::uint64_t e : {0u, 1u, 5u})
        ASSERT_EQ(in(epoch(set, e)), numbers([](const Pair&) { return true; })) << T << " " << S;
    }
}

TEST_F(PairRowsOfASet, AsStoredTheyAreThoseThatPackingMakesOfEachShard) {
  auto set = open(64, 48, Order::as_stored);
  std::vector<std::vector<int>> expected;
  std::int64_t first = 0;
  data::PairLength sum;
  for (const auto& shard : index.train) {
    std::vector<data::PairLength> lengths;
    for (std::int64_t p = first; p < first + shard.documents; ++p) {
      const auto& pair = all.at(static_cast<std::size_t>(p));
      lengths.push_back({std::ssize(pair.source), std::ssize(pair.target)});
      sum.source += lengths.back().source, sum.target += lengths.back().target;
    }
    const auto rows = data::pack_pairs(lengths, {48, 64});
    for (std::int64_t r = 0; r < rows.count(); ++r) {
      expected.emplace_back();
      for (const auto p : rows.row(r)) expected.back().push_back(static_cast<int>(first + p));
    }
    first += shard.documents;
  }
  EXPECT_EQ(epoch(set, 0), expected);
  EXPECT_EQ(epoch(set, 1), expected);
  EXPECT_EQ(set.tokens(), sum);
}

TEST_F(PairRowsOfASet, SeedAndEpochDecideTheOrderOfRowsAlone) {
  auto stored = open(64, 64, Order::as_stored), one = open(64, 64), again = open(64, 64),
       other = open(64, 64, Order::keyed, 4);
  const auto rows = epoch(stored, 0), first = epoch(one, 0), second = epoch(one, 1), of_other = epoch(other, 0);
  EXPECT_EQ(epoch(again, 0), first);
  EXPECT_NE(first, rows);
  EXPECT_NE(first, second);
  EXPECT_NE(first, of_other);
  const auto sorted = [](auto of) {
    std::sort(of.begin(), of.end());
    return of;
  };
  EXPECT_EQ(sorted(first), sorted(rows));
  EXPECT_EQ(sorted(second), sorted(rows));
  EXPECT_EQ(sorted(of_other), sorted(rows));
  // In any order of reading, and whatever else depends on the sample.
  for (auto i = static_cast<std::uint64_t>(first.size()); i-- > 0;) {
    Row row(64, 64);
    one.fill_as(i, 77, row.pointers());
    ASSERT_EQ(row, row_at(again, i));
  }
}

TEST_F(PairRowsOfASet, AFileAtATimeIsEnough) {
  auto many = open(64, 64), one = open(64, 64, Order::keyed, 3, 1);
  for (std::uint64_t i = 0; i < many.count(); ++i) ASSERT_EQ(row_at(one, i), row_at(many, i)) << i;
}

TEST_F(PairRowsOfASet, OfOneLanguage) {
  for (const std::string language : {"de", "fr"}) {
    auto set = open(64, 64, Order::keyed, 3, 2, language);
    EXPECT_EQ(in(epoch(set, 0)), numbers([&](const Pair& p) { return p.language == language; }));
  }
}

TEST_F(PairRowsOfASet, PairsThatAreLongerThanARowAreLeftOutAndCounted) {
  for (const auto& [T, S] : std::vector<std::pair<std::int64_t, std::int64_t>>{{10, 64}, {64, 10}, {20, 15}}) {
    auto set = open(T, S);
    const auto fit =
        numbers([&, T = T, S = S](const Pair& p) { return std::ssize(p.source) <= S && std::ssize(p.target) <= T; });
    EXPECT_EQ(in(epoch(set, 2)), fit);
    EXPECT_EQ(set.pairs(), std::ssize(fit));
    EXPECT_EQ(set.left_out(), 400 - std::ssize(fit));
    EXPECT_GT(set.left_out(), 0);
  }
  const auto none = refusal_of<base::InputError>([&] { open(1, 64); });
  EXPECT_NE(none.find("none of 400 pairs fits a row of 64 source and 1 target tokens"), std::string::npos) << none;
}

TEST_F(PairRowsOfASet, OneHugePairHarmsNoOther) {
  auto with = all;
  with[17].source.assign(100'000, 5), with[17].source.back() = tokenizer.end_of_document();
  Scratch other;
  const auto of_other = write_pairs(other.path, tokenizer, with, 200'000);
  PairWindows set(other.path, of_other, of_other.train,
                  {.sequence = 64, .source_sequence = 64, .order = Order::as_stored, .seed = 1, .start = start});
  EXPECT_EQ(set.left_out(), 1);
  const auto read = in(epoch(set, 0));
  EXPECT_EQ(std::ssize(read), 399);
  EXPECT_EQ(std::count(read.begin(), read.end(), 17), 0);
  Scratch alone;
  const auto of_alone = write_pairs(alone.path, tokenizer, {with[17]}, 200'000);
  const auto refused = refusal_of<base::InputError>([&] {
    PairWindows(alone.path, of_alone, of_alone.train,
                {.sequence = 64, .source_sequence = 64, .order = Order::as_stored, .seed = 1});
  });
  EXPECT_NE(refused.find("none of 1 pair fits a row of 64 source and 64 target tokens"), std::string::npos) << refused;
  // It has a row of its own where rows are as long.
  PairWindows long_rows(alone.path, of_alone, of_alone.train,
                        {.sequence = 64, .source_sequence = 100'000, .order = Order::keyed, .seed = 1, .start = start});
  EXPECT_EQ(long_rows.count(), 1u);
  EXPECT_EQ(row_at(long_rows, 0).source, with[17].source);
}

TEST_F(PairRowsOfASet, TheTargetAloneIsFilledWithoutASource) {
  auto set = open(64, 64);
  for (std::uint64_t i = 0; i < set.count(); ++i) {
    auto expected = row_at(set, i);
    Row row(64, 64);
    auto pointers = row.pointers();
    pointers.source = {}, pointers.key_end = nullptr;
    set.fill(i, pointers);
    expected.key_end = row.key_end;
    for (auto* a : {&expected.seen_begin, &expected.seen_end}) *a = row.seen_begin;
    for (auto* a : {&expected.source, &expected.source_positions, &expected.source_begin, &expected.source_end})
      *a = row.source;
    ASSERT_EQ(row, expected) << i;
  }
}

TEST_F(PairRowsOfASet, WhatHoldsNoPairsIsRefused) {
  const auto refused = [&](const data::SetIndex& of, const std::vector<data::ShardEntry>& split) {
    return refusal_of<base::InputError>([&] {
      PairWindows(scratch.path, of, split, {.sequence = 64, .source_sequence = 64, .order = Order::keyed, .seed = 1});
    });
  };
  EXPECT_NE(refused(index, {}).find("0 shards of the split, and no pair in them"), std::string::npos);
  auto text = index;
  text.pairs = false;
  EXPECT_NE(refused(text, index.train).find("does not say that its documents are pairs"), std::string::npos);
  EXPECT_NE(refusal_of<base::InputError>([&] { open(64, 64, Order::keyed, 3, 2, "xx"); }).find("no pair in them"),
            std::string::npos);
  EXPECT_NE(refusal_of<base::UsageError>([&] { open(0, 64); }).find("rows of 64 source and 0 target tokens"),
            std::string::npos);
  EXPECT_NE(refusal_of<base::UsageError>([&] { open(64, -1); }).find("rows of -1 source"), std::string::npos);
}

// An epoch of a damaged set ends with an error that names the shard.
TEST_F(PairRowsOfASet, NoDamagedShardIsReadSilently) {
  const auto refused = [&] {
    return refusal_of<base::InputError>([&] {
      auto set = open(64, 64);
      for (std::uint64_t i = 0; i < set.count(); ++i) row_at(set, i);
    });
  };
  const auto path = scratch.path + "/" + index.train[1].file;
  const auto whole = slurp(path);
  for (std::size_t at = 0; at < whole.size(); at += 211) {
    auto bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    spit(path, bytes);
    ASSERT_NE(refused().find("shard-00001.h5"), std::string::npos) << "byte " << at;
  }
  for (const auto n : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
    spit(path, whole.substr(0, n));
    ASSERT_NE(refused().find("shard-00001.h5"), std::string::npos) << n << " bytes";
  }
  fs::remove(path);
  EXPECT_NE(refused().find("shard-00001.h5 is missing"), std::string::npos);
}

TEST_F(PairRowsOfASet, DocumentsThatAreNoPairsAreRefused) {
  Scratch text;
  auto of_text = write_set(text.path, tokenizer, documents(tokenizer, 20, 10), 1000);
  of_text.pairs = true;
  const auto refused = refusal_of<base::InputError>([&] {
    PairWindows(text.path, of_text, of_text.train,
                {.sequence = 64, .source_sequence = 64, .order = Order::keyed, .seed = 1});
  });
  EXPECT_NE(refused.find("document 0 is no pair: it has no answer"), std::string::npos) << refused;
}

}  // namespace pair_windows_test

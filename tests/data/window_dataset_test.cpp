// Compares windows of a shard set with a plain reference: contents, order, document mask.
#include "tests/data/sample.h"

#include "libtrain/data/window_dataset.h"
#include "libtrain/plan/data_use.h"

#include <algorithm>
#include <map>
#include <set>

using namespace sample;
using data::DocumentMask;
using data::Order;

namespace window_dataset_test {

struct Window {
  std::vector<std::int32_t> tokens, targets, positions, starts;
  std::vector<std::uint8_t> weights;
  auto operator<=>(const Window&) const = default;
};

Window window_at(data::WindowDataset& set, std::uint64_t ordinal) {
  const auto n = static_cast<std::size_t>(set.sequence());
  Window w{std::vector<std::int32_t>(n, -7), std::vector<std::int32_t>(n, -7), std::vector<std::int32_t>(n, -7),
           std::vector<std::int32_t>(n, -7), std::vector<std::uint8_t>(n, 9)};
  set.fill(ordinal, {w.tokens.data(), w.targets.data(), w.positions.data(), w.starts.data(), w.weights.data()});
  return w;
}

// All windows in stored order, computed from the documents token by token.
std::vector<Window> expected(const std::vector<std::vector<Document>>& shards, std::int64_t sequence,
                             DocumentMask mask) {
  std::vector<Window> out;
  for (const auto& shard : shards) {
    std::vector<std::int32_t> flat, document;  // tokens, and the document number of each
    for (std::size_t d = 0; d < shard.size(); ++d)
      for (auto t : shard[d]) flat.push_back(t), document.push_back(static_cast<std::int32_t>(d));
    const auto n = static_cast<std::int64_t>(flat.size());
    for (std::int64_t first = 0; first + sequence + 1 <= n; first += sequence) {
      Window w;
      for (std::int64_t t = 0; t < sequence; ++t) {
        const auto at = static_cast<std::size_t>(first + t);
        w.tokens.push_back(flat[at]);
        w.targets.push_back(flat[at + 1]);
        std::int64_t start = 0;
        if (mask == DocumentMask::on)
          for (start = t; start > 0 && document[static_cast<std::size_t>(first + start - 1)] == document[at];) --start;
        w.starts.push_back(static_cast<std::int32_t>(start));
        w.positions.push_back(static_cast<std::int32_t>(t - start));
        w.weights.push_back(mask == DocumentMask::on && document[at + 1] != document[at] ? 0 : 1);
      }
      out.push_back(w);
    }
  }
  return out;
}

std::vector<std::vector<Document>> shards_of(const std::vector<Document>& all, std::size_t limit) {
  std::vector<std::vector<Document>> shards(1);
  std::size_t held = 0;
  for (const auto& d : all) {
    if (held + d.size() > limit) shards.emplace_back(), held = 0;
    shards.back().push_back(d);
    held += d.size();
  }
  return shards;
}

struct Case {
  std::int64_t vocabulary, sequence;
  int longest;
  std::size_t shard;
};

TEST(Windows, StoredOrderIsTheText) {
  for (const auto& c : {Case{257, 16, 40, 300}, Case{90000, 7, 3, 100}, Case{257, 64, 10, 130}, Case{50, 1, 5, 20},
                        Case{50, 33, 34, 34}}) {
    Scratch scratch;
    const Numbers tokenizer(c.vocabulary);
    const auto all = documents(tokenizer, 120, c.longest);
    const auto index = write_set(scratch.path, tokenizer, all, static_cast<std::int64_t>(c.shard));
    for (auto mask : {DocumentMask::off, DocumentMask::on}) {
      const auto want = expected(shards_of(all, c.shard), c.sequence, mask);
      data::WindowDataset set(scratch.path, index, index.train,
                              {.sequence = c.sequence, .mask = mask, .order = Order::as_stored, .seed = 1});
      ASSERT_EQ(set.count(), want.size());
      ASSERT_GT(want.size(), 2u);
      for (std::uint64_t i = 0; i < 2 * set.count(); ++i)
        ASSERT_EQ(window_at(set, i), want[i % want.size()]) << "window " << i << " of sequence " << c.sequence;
    }
  }
}

TEST(Windows, KeyedOrderVisitsEachOncePerEpoch) {
  Scratch scratch;
  const Numbers tokenizer(5000);
  const auto all = documents(tokenizer, 200, 40);
  const auto index = write_set(scratch.path, tokenizer, all, 500);
  auto want = expected(shards_of(all, 500), 12, DocumentMask::on);
  const auto stored = want;
  std::sort(want.begin(), want.end());
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Window>> orders;
  for (std::uint64_t seed : {1u, 2u}) {
    data::WindowDataset set(scratch.path, index, index.train,
                            {.sequence = 12, .mask = DocumentMask::on, .order = Order::keyed, .seed = seed});
    for (std::uint64_t epoch : {0u, 1u, 2u}) {
      auto& order = orders[{seed, epoch}];
      for (std::uint64_t i = 0; i < set.count(); ++i) order.push_back(window_at(set, epoch * set.count() + i));
      auto sorted = order;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, want) << "seed " << seed << " epoch " << epoch;
      EXPECT_NE(order, stored);
    }
  }
  std::set<std::vector<Window>> different;
  for (const auto& [key, order] : orders) different.insert(order);
  EXPECT_EQ(different.size(), 6u);
}

TEST(Windows, AnOrdinalDoesNotDependOnWhatWasReadBefore) {
  Scratch scratch;
  const Numbers tokenizer(5000);
  const auto index = write_set(scratch.path, tokenizer, documents(tokenizer, 200, 40), 500);
  data::WindowDataset forward(scratch.path, index, index.train,
                              {.sequence = 12, .mask = DocumentMask::on, .order = Order::keyed, .seed = 3}),
      backward(scratch.path, index, index.train,
               {.sequence = 12, .mask = DocumentMask::on, .order = Order::keyed, .seed = 3});
  std::vector<Window> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) seen.push_back(window_at(forward, i));
  for (std::uint64_t i = 1000; i-- > 0;) ASSERT_EQ(window_at(backward, i), seen[i]);
}

TEST(Windows, AShardShorterThanAWindowHasNone) {
  Scratch scratch;
  const Numbers tokenizer(50);
  const auto index = write_set(scratch.path, tokenizer, {{1, 2, 3, 49}, {4, 5, 6, 7, 49}}, 5);
  const auto open = [&](std::int64_t sequence) {
    return data::WindowDataset(scratch.path, index, index.train,
                               {.sequence = sequence, .mask = DocumentMask::off, .order = Order::as_stored, .seed = 1});
  };
  for (const auto& [sequence, count] : {std::pair{3, 2}, {4, 1}})
    EXPECT_EQ(open(sequence).count(), static_cast<std::uint64_t>(count)) << sequence;
  try {
    open(5);
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_EQ(e.what(),
              scratch.path + ": 2 shards of the split, the longest of 5 tokens, and none holds a window of 6");
  }
  for (const std::int64_t sequence : {0, -4}) EXPECT_THROW(open(sequence), base::UsageError) << sequence;
}

TEST(Windows, TheMaskByHand) {
  Scratch scratch;
  const Numbers tokenizer(50);
  const auto index = write_set(scratch.path, tokenizer, {{1, 2, 49}, {3, 49}, {4, 5, 6, 49}}, 100);
  data::WindowDataset set(scratch.path, index, index.train,
                          {.sequence = 4, .mask = DocumentMask::on, .order = Order::as_stored, .seed = 1});
  ASSERT_EQ(set.count(), 2u);
  EXPECT_EQ(window_at(set, 0), (Window{{1, 2, 49, 3}, {2, 49, 3, 49}, {0, 1, 2, 0}, {0, 0, 0, 3}, {1, 1, 0, 1}}));
  // The second window begins inside a document: its positions begin at 0 there.
  EXPECT_EQ(window_at(set, 1), (Window{{49, 4, 5, 6}, {4, 5, 6, 49}, {0, 0, 1, 2}, {0, 1, 1, 1}, {0, 1, 1, 1}}));
}

// The number of windows that a plan computes for a set (plan/data_use.h) equals the number that a run reads.
TEST(Windows, AreAsManyAsAPlanSays) {
  const Numbers tokenizer(300);
  const Scratch scratch;
  const auto index = write_set(scratch.path, tokenizer, documents(tokenizer, 200, 40), 700);
  ASSERT_GT(index.train.size(), 4u);
  std::vector<std::int64_t> tokens;
  for (const auto& shard : index.train) tokens.push_back(shard.tokens);
  for (const std::int64_t sequence : {1, 7, 64, 500, 699, 700, 5000}) {
    const auto windows = trainyard::plan::data_use(tokens, sequence).windows;
    const auto open = [&] {
      return data::WindowDataset(
          scratch.path, index, index.train,
          {.sequence = sequence, .mask = DocumentMask::off, .order = Order::as_stored, .seed = 1});
    };
    if (windows == 0) EXPECT_THROW(open(), base::InputError) << sequence;
    else EXPECT_EQ(static_cast<std::int64_t>(open().count()), windows) << sequence;
  }
}

}  // namespace window_dataset_test

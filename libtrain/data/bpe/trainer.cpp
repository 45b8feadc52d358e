// Counts of pairs are kept up to date while words are merged. A heap has pairs with the count that they had when they
// were put there, and a list of the words that had the pair then.
#include "libtrain/data/bpe/trainer.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/bpe/unicode_classes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace trainyard::data::bpe {

namespace {

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// How often each pair of neighbours occurs. An entry is never removed.
class PairCounts {
 public:
  PairCounts() : places_(std::size_t{1} << 16) {}
  std::int64_t& operator[](std::uint64_t key) {
    auto at = place_of(key);
    if (places_[at].key == none) {
      if (++count_ > places_.size() / 2) grow(), at = place_of(key);
      places_[at].key = key;
    }
    return places_[at].count;
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  struct Place {
    std::uint64_t key = none;
    std::int64_t count = 0;
  };
  std::size_t place_of(std::uint64_t key) const {
    const auto mask = places_.size() - 1;
    auto hash = key * 0x9E3779B97F4A7C15ull;
    auto at = (hash ^ hash >> 32) & mask;
    while (places_[at].key != key && places_[at].key != none) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    const auto before = std::exchange(places_, std::vector<Place>(2 * places_.size()));
    for (const auto& place : before)
      if (place.key != none) places_[place_of(place.key)] = place;
  }

  std::vector<Place> places_;
  std::size_t count_ = 0;
};

// Words with two tokens or more, as tokens.
struct WordTable {
  struct Word {
    std::size_t at = 0;
    std::uint32_t size = 0;
    std::int64_t times = 0;
  };
  std::vector<Word> words;
  std::vector<std::int32_t> tokens;
};

using WordList = std::vector<std::uint32_t>;  // ascending indices into WordTable::words

class MergeTrainer {
 public:
  MergeTrainer(const WordCounts& words, const TrainerOptions& options) : options_(options) {
    out_.tokens = options.special;
    special_.insert(options.special.begin(), options.special.end());
    add_bytes();
    add_words(words);
    count_pairs();
  }

  Training run() {
    constexpr int often = 64;
    for (int turn = 0; std::ssize(out_.tokens) < options_.vocabulary && !heap_.empty();) {
      auto top = pop();
      const auto count = counts_[top.key];
      if (count != top.count) {
        top.count = count;
        if (count > 0) push(top);
        else give_back(top.list);
        continue;
      }
      merge(top);
      if (options_.progress && ++turn % often == 0) options_.progress(std::ssize(out_.tokens));
    }
    return std::move(out_);
  }

 private:
  struct Entry {
    std::int64_t count = 0;
    std::uint64_t key = 0;
    std::size_t list = 0;  // index into lists_
  };
  static bool later(const Entry& a, const Entry& b) { return a.count != b.count ? a.count < b.count : a.key > b.key; }

  void push(const Entry& entry) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Entry pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const auto entry = heap_.back();
    heap_.pop_back();
    return entry;
  }
  std::size_t new_list() {
    if (free_.empty()) {
      lists_.emplace_back();
      return lists_.size() - 1;
    }
    const auto list = free_.back();
    free_.pop_back();
    return list;
  }

  void give_back(std::size_t list) {
    lists_[list] = {};
    free_.push_back(list);
  }

  void add_bytes() {
    std::array<unsigned char, 256> bytes;
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
    const auto code_point = [](unsigned char byte) {
      const auto text = character_of(byte);
      const auto* at = text.data();
      return next_code_point(at);
    };
    std::sort(bytes.begin(), bytes.end(), [&](auto a, auto b) { return code_point(a) < code_point(b); });
    for (const auto byte : bytes) {
      of_byte_[byte] = static_cast<std::int32_t>(out_.tokens.size());
      out_.tokens.emplace_back(1, static_cast<char>(byte));
    }
  }

  void add_words(const WordCounts& words) {
    std::size_t count = 0, bytes = 0;
    words.for_each([&](std::string_view word, std::int64_t) {
      if (word.size() > 1) ++count, bytes += word.size();
    });
    TRAINYARD_ASSERT(count < std::numeric_limits<std::uint32_t>::max(), "{} words", count);
    table_.words.reserve(count), table_.tokens.reserve(bytes);
    words.for_each([&](std::string_view word, std::int64_t times) {
      if (word.size() < 2) return;
      TRAINYARD_ASSERT(word.size() <= std::numeric_limits<std::uint32_t>::max(), "a word of {} bytes", word.size());
      table_.words.push_back({table_.tokens.size(), static_cast<std::uint32_t>(word.size()), times});
      for (const char c : word) table_.tokens.push_back(of_byte_[static_cast<unsigned char>(c)]);
    });
  }

  void count_pairs() {
    std::unordered_map<std::uint64_t, std::size_t> list_of;
    for (std::uint32_t w = 0; w < table_.words.size(); ++w) {
      const auto& word = table_.words[w];
      for (std::size_t i = word.at; i + 1 < word.at + word.size; ++i) {
        const auto key = key_of(table_.tokens[i], table_.tokens[i + 1]);
        counts_[key] += word.times;
        const auto [found, is_new] = list_of.try_emplace(key, lists_.size());
        if (is_new) lists_.emplace_back();
        if (auto& list = lists_[found->second]; list.empty() || list.back() != w) list.push_back(w);
      }
    }
    for (const auto& [key, list] : list_of) push({counts_[key], key, list});
  }

  // The new token of the pair. No other pair makes its text: no merge crosses the ends of such a text before it is one
  // token, so it was merged in one way wherever it stands. -1: a special token has this text.
  std::int32_t token_of(std::int32_t left, std::int32_t right) {
    auto text = base::at(out_.tokens, left) + base::at(out_.tokens, right);
    if (special_.contains(text)) return -1;
    out_.tokens.push_back(std::move(text));
    return static_cast<std::int32_t>(out_.tokens.size()) - 1;
  }

  void merge(const Entry& entry) {
    const auto left = static_cast<std::int32_t>(entry.key >> 32);
    const auto right = static_cast<std::int32_t>(entry.key & 0xFFFFFFFFu);
    const auto merged = token_of(left, right);
    if (merged >= 0) {
      out_.merges.push_back({left, right, merged});
      list_left_.resize(out_.tokens.size(), none), list_right_.resize(out_.tokens.size(), none);
      const auto words = std::exchange(lists_[entry.list], {});
      for (const auto w : words) merge_in(w, out_.merges.back());
      for (const auto& [key, list] : touched_) {
        (static_cast<std::int32_t>(key >> 32) == merged ? base::at(list_right_, static_cast<std::int32_t>(key))
                                                        : base::at(list_left_, static_cast<std::int32_t>(key >> 32))) =
            none;
        if (const auto count = counts_[key]; count > 0) push({count, key, list});
        else give_back(list);
      }
      touched_.clear();
    }
    give_back(entry.list);
  }

  void merge_in(std::uint32_t w, const Merge& m) {
    auto& word = table_.words[w];
    auto* tokens = table_.tokens.data() + word.at;
    std::uint32_t to = 0;
    for (std::uint32_t from = 0; from < word.size;) {
      if (tokens[from] != m.left || from + 1 == word.size || tokens[from + 1] != m.right) {
        tokens[to++] = tokens[from++];
        continue;
      }
      if (to > 0) {
        counts_[key_of(tokens[to - 1], m.left)] -= word.times;
        found(tokens[to - 1], m.merged, w);
      }
      tokens[to++] = m.merged;
      from += 2;
      if (from < word.size) {
        counts_[key_of(m.right, tokens[from])] -= word.times;
        found(m.merged, tokens[from], w, m.merged);
      }
    }
    word.size = to;
  }

  // A pair with the new token stands in the word. `merged` is given where the new token is the left one.
  void found(std::int32_t left, std::int32_t right, std::uint32_t w, std::int32_t merged = -1) {
    const auto key = key_of(left, right);
    counts_[key] += table_.words[w].times;
    auto& list = merged >= 0 || left == right ? base::at(list_right_, right) : base::at(list_left_, left);
    if (list == none) {
      list = new_list();
      touched_.emplace_back(key, list);
    }
    if (auto& words = lists_[list]; words.empty() || words.back() != w) words.push_back(w);
  }

  static constexpr std::size_t none = ~std::size_t{0};
  const TrainerOptions& options_;
  Training out_;
  std::array<std::int32_t, 256> of_byte_{};
  std::unordered_set<std::string> special_;
  WordTable table_;
  PairCounts counts_;
  std::vector<WordList> lists_;
  std::vector<std::size_t> free_;  // empty lists
  std::vector<Entry> heap_;
  // Of the merge at work: the lists of pairs with its token at the right (by their left token), and at the left.
  std::vector<std::size_t> list_left_, list_right_;
  std::vector<std::pair<std::uint64_t, std::size_t>> touched_;
};

}  // namespace

Training train(const WordCounts& words, const TrainerOptions& options) { return MergeTrainer(words, options).run(); }

}  // namespace trainyard::data::bpe

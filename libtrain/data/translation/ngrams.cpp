// Sorts the longest n-grams once. Shorter ones are their beginnings, so they are sorted too.
#include "libtrain/data/translation/ngrams.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>

namespace trainyard::data::translation {

void SortedNgrams::set(std::span<const std::uint32_t> items, int orders) {
  TRAINYARD_ASSERT(orders >= 1 && orders <= most_orders, "n-grams of {} orders", orders);
  orders_ = orders;
  keys_.clear();
  keys_.reserve(items.size());
  const int in_half = orders <= 4 ? 2 : 3;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto half = [&](int from) {
      std::uint64_t out = 0;
      for (int k = from; k < from + in_half; ++k) {
        const auto at = i + base::size(k);
        out = out << bits() | (k < orders && at < items.size() ? items[at] : 0u);
      }
      return out;
    };
    keys_.emplace_back(half(0), half(in_half));
  }
  std::sort(keys_.begin(), keys_.end());
}

std::int64_t SortedNgrams::count(int order) const { return std::max<std::int64_t>(0, std::ssize(keys_) - order + 1); }

SortedNgrams::Key SortedNgrams::mask(int order) const {
  const int in_half = orders_ <= 4 ? 2 : 3;
  const auto half = [&](int items) {
    std::uint64_t out = 0;
    const std::uint64_t one = (std::uint64_t{1} << bits()) - 1;
    for (int k = 0; k < in_half; ++k) out = out << bits() | (k < items ? one : 0);
    return out;
  };
  return {half(order), half(order - in_half)};
}

bool SortedNgrams::has(const Key& key, int order) const {
  const int in_half = orders_ <= 4 ? 2 : 3, last = order - 1;
  const auto half = last < in_half ? key.first : key.second;
  return (half >> (bits() * (in_half - 1 - last % in_half)) & ((std::uint64_t{1} << bits()) - 1)) != 0;
}

std::int64_t SortedNgrams::matches(std::span<const SortedNgrams> references, int order) const {
  const auto wanted = mask(order);
  const auto begin_of = [&](const Key& key) { return Key{key.first & wanted.first, key.second & wanted.second}; };
  std::vector<std::size_t> at(references.size(), 0);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < keys_.size();) {
    const auto ngram = begin_of(keys_[i]);
    std::int64_t here = 0;
    for (; i < keys_.size() && begin_of(keys_[i]) == ngram; ++i) ++here;
    if (!has(ngram, order)) continue;
    std::int64_t most = 0;
    for (std::size_t r = 0; r < references.size(); ++r) {
      const auto& keys = references[r].keys_;
      auto& k = at[r];
      while (k < keys.size() && begin_of(keys[k]) < ngram) ++k;
      std::int64_t there = 0;
      for (; k < keys.size() && begin_of(keys[k]) == ngram; ++k) ++there;
      most = std::max(most, there);
    }
    sum += std::min(here, most);
  }
  return sum;
}

}  // namespace trainyard::data::translation

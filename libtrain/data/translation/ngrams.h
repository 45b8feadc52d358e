// N-grams of a line, sorted, and how many of them a reference has too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trainyard::data::translation {

// The n-grams of all orders up to `orders` of a sequence of items, in one sorted list. Items are above 0, and below
// 2^21 for 5 or 6 orders, so that an n-gram is one number of 128 bits, and equal n-grams are equal numbers.
class SortedNgrams {
 public:
  static constexpr int most_orders = 6;
  void set(std::span<const std::uint32_t> items, int orders);
  std::int64_t count(int order) const;  // all n-grams of the order, equal ones too

  // For each n-gram of the order, the lesser of its number here and its largest number in a reference; their sum.
  // The references have the same number of orders.
  std::int64_t matches(std::span<const SortedNgrams> references, int order) const;

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  int bits() const { return orders_ <= 4 ? 32 : 21; }
  Key mask(int order) const;
  bool has(const Key& key, int order) const;  // the key has so many items

  std::vector<Key> keys_;  // ascending; an n-gram that ends at the end of the line is followed by zeros
  int orders_ = 1;
};

}  // namespace trainyard::data::translation

// WordCounts: how often each word occurs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::bpe {

// A hash map with open addressing. Memory for each different word: its bytes and 32 to 64 more, and half as much again
// while the map grows.
class WordCounts {
 public:
  void add(std::string_view word, std::int64_t times = 1);
  void add(const WordCounts& other);
  void clear();  // keeps the memory
  std::size_t size() const { return count_; }
  std::int64_t memory() const;

  // Calls each(word, times) for every word, in no particular order.
  template <class Each> void for_each(const Each& each) const {
    for (const auto& place : places_)
      if (place.times > 0) each(word_of(place), place.times);
  }

 private:
  struct Place {
    std::uint64_t hash = 0, at = 0;  // `at`: of the word in bytes_
    std::uint64_t bytes = 0;
    std::int64_t times = 0;  // 0: an empty place
  };
  std::string_view word_of(const Place& place) const { return {bytes_.data() + place.at, place.bytes}; }
  void add(std::string_view word, std::uint64_t hash, std::int64_t times);
  void grow();

  std::vector<Place> places_;  // a power of two, at most two thirds full
  std::string bytes_;
  std::size_t count_ = 0;
};

}  // namespace trainyard::data::bpe

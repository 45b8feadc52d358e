// Words lie one after another in one string.
#include "libtrain/data/bpe/word_counts.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trainyard::data::bpe {

namespace {

constexpr std::size_t first_places = 1024;

// Eight bytes at a time, mixed by multiplication.
std::uint64_t hash_of_word(std::string_view word) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15ull;
  std::uint64_t hash = word.size() * odd;
  const auto mix = [&](std::uint64_t value) {
    hash = (hash ^ value) * odd;
    hash ^= hash >> 32;
  };
  std::size_t at = 0;
  std::uint64_t value = 0;
  for (; at + 8 <= word.size(); at += 8) {
    std::memcpy(&value, word.data() + at, 8);
    mix(value);
  }
  if (at < word.size()) {
    value = 0;
    std::memcpy(&value, word.data() + at, word.size() - at);
    mix(value);
  }
  return hash * odd ^ hash >> 29;
}

}  // namespace

void WordCounts::add(std::string_view word, std::uint64_t hash, std::int64_t times) {
  if (places_.empty()) places_.resize(first_places);
  const auto mask = places_.size() - 1;
  auto at = hash & mask;
  for (; places_[at].times > 0; at = (at + 1) & mask) {
    auto& place = places_[at];
    if (place.hash != hash || word_of(place) != word) continue;
    place.times += times;
    return;
  }
  places_[at] = {hash, bytes_.size(), word.size(), times};
  bytes_.append(word);
  if (++count_ > places_.size() / 3 * 2) grow();
}

void WordCounts::add(std::string_view word, std::int64_t times) { add(word, hash_of_word(word), times); }

void WordCounts::add(const WordCounts& other) {
  for (const auto& place : other.places_)
    if (place.times > 0) add(other.word_of(place), place.hash, place.times);
}

void WordCounts::grow() {
  const auto before = std::exchange(places_, std::vector<Place>(2 * places_.size()));
  const auto mask = places_.size() - 1;
  for (const auto& place : before) {
    if (place.times == 0) continue;
    auto at = place.hash & mask;
    while (places_[at].times > 0) at = (at + 1) & mask;
    places_[at] = place;
  }
}

void WordCounts::clear() {
  std::fill(places_.begin(), places_.end(), Place());
  bytes_.clear();
  count_ = 0;
}

std::int64_t WordCounts::memory() const {
  return static_cast<std::int64_t>(places_.capacity() * sizeof(Place) + bytes_.capacity());
}

}  // namespace trainyard::data::bpe

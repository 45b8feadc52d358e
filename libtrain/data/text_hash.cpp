// Open addressing with a load of at most three quarters.
#include "libtrain/data/text_hash.h"

#include <bit>
#include <cstring>
#include <utility>

namespace trainyard::data {

namespace {

constexpr std::uint64_t c1 = 0x87c37b91114253d5ull, c2 = 0x4cf5ad432745937full;

std::uint64_t word_at(std::string_view text, std::size_t at, std::size_t bytes = 8) {
  std::uint64_t word = 0;
  std::memcpy(&word, text.data() + at, bytes);  // little-endian
  return word;
}

std::uint64_t first_word(std::uint64_t k) { return std::rotl(k * c1, 31) * c2; }
std::uint64_t second_word(std::uint64_t k) { return std::rotl(k * c2, 33) * c1; }

std::uint64_t finished(std::uint64_t k) {
  k = (k ^ (k >> 33)) * 0xff51afd7ed558ccdull;
  k = (k ^ (k >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return k ^ (k >> 33);
}

}  // namespace

TextHash hash_of_text(std::string_view text) {
  TextHash h;
  std::size_t at = 0;
  for (; at + 16 <= text.size(); at += 16) {
    h.a = (std::rotl(h.a ^ first_word(word_at(text, at)), 27) + h.b) * 5 + 0x52dce729;
    h.b = (std::rotl(h.b ^ second_word(word_at(text, at + 8)), 31) + h.a) * 5 + 0x38495ab5;
  }
  const auto left = text.size() - at;
  if (left > 8) h.b ^= second_word(word_at(text, at + 8, left - 8));
  if (left > 0) h.a ^= first_word(word_at(text, at, left < 8 ? left : 8));
  h.a ^= text.size(), h.b ^= text.size();
  h.a += h.b, h.b += h.a;
  h.a = finished(h.a), h.b = finished(h.b);
  h.a += h.b, h.b += h.a;
  return h;
}

TextHash& TextHashes::place_of(TextHash hash) {
  auto at = hash.a & (places_.size() - 1);
  while (places_[at] != TextHash{} && places_[at] != hash) at = (at + 1) & (places_.size() - 1);
  return places_[at];
}

void TextHashes::grow() {
  auto before = std::exchange(places_, std::vector<TextHash>(2 * places_.size()));
  for (const auto& hash : before)
    if (hash != TextHash{}) place_of(hash) = hash;
}

bool TextHashes::insert(TextHash hash) {
  if (hash == TextHash{}) {
    count_ += has_zero_ ? 0 : 1;
    return !std::exchange(has_zero_, true);
  }
  if (auto& place = place_of(hash); place == hash) return false;
  else place = hash;
  if (++count_ > places_.size() / 4 * 3) grow();
  return true;
}

}  // namespace trainyard::data

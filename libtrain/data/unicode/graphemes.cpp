// Kinds of characters in a table; the rules look at the kinds before.
#include "libtrain/data/unicode/graphemes.h"

#include "libtrain/base/index.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/unicode/tables.h"

#include <cstdint>
#include <vector>

namespace trainyard::data::unicode {

namespace {

enum class Part : std::uint8_t {
  other,
  apart,
  joins,
  joiner,
  linker,
  next,
  picture,
  linked,
  region,
  lead,
  vowel,
  trail,
  open_syllable,
  closed_syllable
};

constexpr char32_t zero_width_joiner = 0x200D;

std::vector<Part> all_parts() {
  std::vector<Part> out(0x110000);
  const auto fill = [&](auto ranges, Part part) {
    for (const auto& r : ranges)
      for (auto c = r.first; c <= r.last; ++c) out[c] = part;
  };
  fill(pictures, Part::picture);
  fill(linked, Part::linked);
  fill(apart, Part::apart);
  fill(joining, Part::joins);
  fill(linkers, Part::linker);
  fill(joining_next, Part::next);
  constexpr Range regions[] = {{0x1F1E6, 0x1F1FF}}, leads[] = {{0x1100, 0x115F}, {0xA960, 0xA97C}},
                  vowels[] = {{0x1160, 0x11A7}, {0xD7B0, 0xD7C6}}, trails[] = {{0x11A8, 0x11FF}, {0xD7CB, 0xD7FB}};
  fill(std::span(regions), Part::region);
  fill(std::span(leads), Part::lead);
  fill(std::span(vowels), Part::vowel);
  fill(std::span(trails), Part::trail);
  for (char32_t c = 0xAC00; c < 0xAC00 + 11172; ++c)
    out[c] = (c - 0xAC00) % 28 == 0 ? Part::open_syllable : Part::closed_syllable;
  out[zero_width_joiner] = Part::joiner;
  return out;
}

const Part* parts() {
  static const auto table = all_parts();
  return table.data();
}

// Syllables of Hangul, from their letters.
bool same_syllable(Part before, Part after) {
  const bool has_vowel = after == Part::vowel, has_trail = after == Part::trail;
  if (before == Part::lead)
    return after == Part::lead || has_vowel || after == Part::open_syllable || after == Part::closed_syllable;
  if (before == Part::vowel || before == Part::open_syllable) return has_vowel || has_trail;
  return (before == Part::trail || before == Part::closed_syllable) && has_trail;
}

}  // namespace

std::size_t grapheme_bytes(std::string_view text) {
  const char *at = text.data(), *const end = at + text.size();
  const auto first = bpe::next_code_point(at);
  if (first == '\r') return text.starts_with("\r\n") ? 2 : 1;
  const auto* const table = parts();
  auto before = table[first];
  // ASCII belongs to no character before it but to one that asks for it.
  const bool alone =
      at == end || before == Part::apart || (static_cast<unsigned char>(*at) < 0x80 && before != Part::next);
  if (alone) return base::size(at - text.data());
  bool picture = before == Part::picture, letter = before == Part::linked, linker = false;
  int regions = before == Part::region;
  while (at != end) {
    const auto* next = at;
    const auto part = table[bpe::next_code_point(next)];
    const bool joins = part == Part::joins || part == Part::joiner || part == Part::linker;
    const bool belongs = joins || (before == Part::next && part != Part::apart) || same_syllable(before, part) ||
                         (picture && before == Part::joiner && part == Part::picture) ||
                         (letter && linker && part == Part::linked) ||
                         (part == Part::region && regions == 1 && before == Part::region);
    if (!belongs) break;
    if (part == Part::linker) linker = true;
    if (!joins) picture = part == Part::picture, letter = part == Part::linked, linker = false;
    regions += part == Part::region;
    before = part;
    at = next;
  }
  return base::size(at - text.data());
}

}  // namespace trainyard::data::unicode

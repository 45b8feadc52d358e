// Letters, numbers, punctuation and white space of Unicode, by code point. They are the same on every machine, whatever
// its libraries define.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trainyard::data::bpe {

enum class CharClass : std::uint8_t { other, letter, number, space };  // \p{L}, \p{N}, \s

// Tables in unicode_ranges.cpp: pairs of first and last code point, ascending. tests/golden/unicode_ranges.py writes
// this file.
struct CodePoints {
  char32_t first, last;
};
extern const std::span<const CodePoints> letters, numbers, punctuation;
// \w without the letters: marks, decimal digits, the low line, ...
extern const std::span<const CodePoints> in_words;

const CharClass* class_table();  // for all 0x110000 code points
bool is_punctuation(char32_t c);
bool is_word(char32_t c);  // \w
// Where white space before `end` begins, and where white space from `begin` on ends. The text must be valid UTF-8.
std::size_t before_space(std::string_view text, std::size_t end);
std::size_t behind_space(std::string_view text, std::size_t begin);

// The code point at `at`; moves `at` behind it. The text must be valid UTF-8.
inline char32_t next_code_point(const char*& at) {
  const auto byte = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(at[i])); };
  const auto lead = byte(0);
  if (lead < 0x80) return ++at, lead;
  if (lead < 0xE0) {
    const auto c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    return at += 2, c;
  }
  if (lead < 0xF0) {
    const auto c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    return at += 3, c;
  }
  const auto c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  return at += 4, c;
}

}  // namespace trainyard::data::bpe

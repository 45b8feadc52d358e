// Properties of characters that normalizers and pre-tokenizers ask for, in one table.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::data::unicode {

enum Property : std::uint8_t {
  is_space = 1,
  is_sign = 2,  // punctuation
  is_number = 4,
  is_nonspacing_mark = 8,
  is_combining_mark = 16,
  is_not_clean = 32,  // BERT removes it
  is_chinese = 64     // BERT puts spaces around it
};

// A Property set for each of the 0x110000 code points.
const std::uint8_t* properties();

// For each code point the distance to its small letter, or 0. U+0130 becomes two characters: `i` is the first one.
const std::int32_t* small_letters();

void append(char32_t c, std::string& out);  // as UTF-8

}  // namespace trainyard::data::unicode

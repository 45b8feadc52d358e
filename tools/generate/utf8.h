// UTF-8 by the byte: what is a whole character, what is not one yet, and what never will be.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard::generate {

inline constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Character { whole, cut, broken };
struct Utf8Head {
  Character kind;
  std::size_t bytes;  // whole: of the character; cut: up to the end of the text, which more bytes could complete;
                      // broken: to replace by one U+FFFD
};
// What a text that is not empty begins with; well-formed byte sequences and their longest beginnings as in The Unicode
// Standard 15, tables 3-7 and 3-8.
Utf8Head utf8_head(std::string_view text);

// The text with each broken part, and a cut end, replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace trainyard::generate

// UTF-8 byte by byte: which bytes are a whole character, which are a part of one so far, and which never will be one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard::generate {

inline constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Character { whole, cut, broken };
struct Utf8Head {
  Character kind;
  // whole: bytes of the character. cut: bytes up to the end of the text, which more bytes could complete. broken: bytes
  // to replace by one U+FFFD.
  std::size_t bytes;
};
// Classifies the beginning of a nonempty text. Well-formed byte sequences and their longest beginnings are as in The
// Unicode Standard 15, tables 3-7 and 3-8.
Utf8Head utf8_head(std::string_view text);

// Returns the text with each broken part, and a cut end, replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace trainyard::generate

// Graphemes: where a character belongs to the one before it (UAX 29), as far as graphemes of less than six bytes show.
#pragma once

#include <cstddef>
#include <string_view>

namespace trainyard::data::unicode {

// The bytes of the first grapheme. `text` is not empty and valid UTF-8; the grapheme before it, if any, ends there.
std::size_t grapheme_bytes(std::string_view text);

}  // namespace trainyard::data::unicode

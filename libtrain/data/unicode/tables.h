// Tables of Unicode that tests/golden/unicode_forms.py writes, as the `tokenizers` package has them.
#pragma once

#include <span>

namespace trainyard::data::unicode {

struct Range {
  char32_t first, last;
};
// first, first + step, ... last become other, other + step, ...
struct Run {
  char32_t first, last, step, other;
};

// Compatibility forms beyond the canonical ones. The long ones are rows of a character, a number, and so many
// characters.
extern const std::span<const Run> compatible_single;
extern const std::span<const char32_t> compatible_long;
extern const std::span<const Run> lower_case;
// Marks without width; marks of all kinds; what BERT removes from a text; what the pre-tokenizer Digits divides.
extern const std::span<const Range> nonspacing_marks, combining_marks, not_clean, digits;
// Parts of graphemes: what belongs to the character before; pictures, which a joiner (U+200D) joins; what the next
// character belongs to; what nothing belongs to; and letters of India that a linker between them joins.
extern const std::span<const Range> joining, pictures, joining_next, apart, linkers, linked;

}  // namespace trainyard::data::unicode

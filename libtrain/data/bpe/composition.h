// NFC: composes letters and marks where Unicode has one character for them, as the `tokenizers` package does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trainyard::data::bpe {

// Tables in composed_pairs.cpp and taken_apart.cpp, in ascending order. tests/golden/unicode_normal.py writes these
// files. Hangul follows a rule instead.
struct CombiningClass {
  char32_t first, last;
  std::uint8_t value;
};
struct Decomposition {
  char32_t whole, first, second;  // second 0: `whole` stands for the one character `first`
};
extern const std::span<const CombiningClass> combining_classes;
// Characters in taken_apart are never composed from their parts.
extern const std::span<const Decomposition> composed_pairs, taken_apart;

// Returns the text itself where nothing changes, else `memory`, which then holds the changed text. It takes time linear
// in the text, except n log n for a run of n marks. The text must be valid UTF-8.
std::string_view composed(std::string_view text, std::string& memory);

// The steps of all normal forms: appends the canonical parts of a character, sorts the marks behind each letter by
// their classes, and composes what has a character of its own.
bool is_mark(char32_t c);  // it has a combining class
void take_apart(char32_t c, std::u32string& append_to);
void sort_marks(std::u32string& text);
void put_together(std::u32string& text);

}  // namespace trainyard::data::bpe

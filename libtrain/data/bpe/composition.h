// NFC: text in which letters and marks are composed where Unicode has one character for them, as the `tokenizers`
// package makes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trainyard::data::bpe {

// composed_pairs.cpp and taken_apart.cpp, which tests/golden/unicode_normal.py writes: ascending. Hangul follows a rule
// instead.
struct CombiningClass {
  char32_t first, last;
  std::uint8_t value;
};
struct Decomposition {
  char32_t whole, first, second;  // second 0: one character stands for another
};
extern const std::span<const CombiningClass> combining_classes;
extern const std::span<const Decomposition> composed_pairs, taken_apart;  // the latter are never made of their parts

// The text itself where nothing of it changes, else `memory`, which holds the changed text. It takes time linear in the
// text, but for n log n of a run of n marks. The text is valid UTF-8.
std::string_view composed(std::string_view text, std::string& memory);

}  // namespace trainyard::data::bpe

// A table with the class of each code point, one byte each.
#include "libtrain/data/bpe/unicode_classes.h"

#include "libtrain/base/index.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace trainyard::data::bpe {

namespace {

constexpr CodePoints spaces[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                 {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                 {0x205F, 0x205F}, {0x3000, 0x3000}};

std::vector<CharClass> make_table() {
  std::vector<CharClass> table(0x110000, CharClass::other);
  const auto fill = [&](std::span<const CodePoints> ranges, CharClass name) {
    for (const auto& r : ranges)
      for (auto c = r.first; c <= r.last; ++c) table[c] = name;
  };
  fill(letters, CharClass::letter);
  fill(numbers, CharClass::number);
  fill(spaces, CharClass::space);
  return table;
}

bool among(std::span<const CodePoints> ranges, char32_t c) {
  const auto behind =
      std::upper_bound(ranges.begin(), ranges.end(), c, [](char32_t at, const CodePoints& r) { return at < r.first; });
  return behind != ranges.begin() && c <= std::prev(behind)->last;
}

}  // namespace

const CharClass* class_table() {
  static const auto table = make_table();
  return table.data();
}

std::size_t before_space(std::string_view text, std::size_t end) {
  while (end > 0) {
    auto begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const auto* at = text.data() + begin;
    if (class_table()[next_code_point(at)] != CharClass::space) break;
    end = begin;
  }
  return end;
}

std::size_t behind_space(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const auto* at = text.data() + begin;
    if (class_table()[next_code_point(at)] != CharClass::space) break;
    begin = base::size(at - text.data());
  }
  return begin;
}

bool is_punctuation(char32_t c) { return among(punctuation, c); }
bool is_word(char32_t c) { return class_table()[c] == CharClass::letter || among(in_words, c); }

}  // namespace trainyard::data::bpe

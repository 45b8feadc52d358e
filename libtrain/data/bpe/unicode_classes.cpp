// A byte for each code point.
#include "libtrain/data/bpe/unicode_classes.h"

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

}  // namespace

const CharClass* class_table() {
  static const auto table = make_table();
  return table.data();
}

}  // namespace trainyard::data::bpe

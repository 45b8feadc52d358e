// Fills the table from the ranges, once.
#include "libtrain/data/unicode/properties.h"

#include "libtrain/base/index.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/unicode/tables.h"

#include <span>
#include <vector>

namespace trainyard::data::unicode {

namespace {

constexpr char32_t code_points = 0x110000;

constexpr Range chinese[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                             {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};

std::vector<std::uint8_t> all_properties() {
  std::vector<std::uint8_t> out(code_points);
  const auto fill = [&](auto ranges, Property property) {
    for (const auto& r : ranges)
      for (auto c = r.first; c <= r.last; ++c) out[c] |= property;
  };
  for (char32_t c = 0; c < code_points; ++c)
    if (bpe::class_table()[c] == bpe::CharClass::space) out[c] |= is_space;
  fill(bpe::punctuation, is_sign);
  fill(digits, is_number);
  fill(nonspacing_marks, is_nonspacing_mark);
  fill(combining_marks, is_combining_mark);
  fill(not_clean, is_not_clean);
  fill(std::span(chinese), is_chinese);
  return out;
}

// The distance to the small letter.
std::vector<std::int32_t> all_small_letters() {
  std::vector<std::int32_t> out(code_points);
  for (const auto& run : lower_case)
    for (auto c = run.first; c <= run.last; c += run.step)
      out[c] = static_cast<std::int32_t>(run.other) - static_cast<std::int32_t>(run.first);
  out[0x130] = 'i' - 0x130;
  return out;
}

}  // namespace

const std::uint8_t* properties() {
  static const auto table = all_properties();
  return table.data();
}

const std::int32_t* small_letters() {
  static const auto table = all_small_letters();
  return table.data();
}

void append(char32_t c, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6), tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12), tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0);
  }
}

}  // namespace trainyard::data::unicode

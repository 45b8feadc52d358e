// The rules of the tokenizers. A rule looks at the text from left to right, and what one match took is in no other.
#include "libtrain/data/translation/words.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/data/bpe/categories.h"
#include "libtrain/data/bpe/unicode_classes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace trainyard::data::translation {

namespace {

constexpr char32_t end_of_code_points = 0x110000;

bool is_western_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_dot_or_comma(char32_t c) { return c == '.' || c == ','; }

// Signs of ASCII that 13a always sets apart: all but the apostrophe, comma, hyphen and dot. The space is among them.
bool is_western_sign(char32_t c) {
  return (c >= ' ' && c <= '+' && c != '\'') || c == '/' || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

enum Sign : std::uint8_t { number_sign = 1, punctuation_sign = 2, symbol_sign = 4 };

// By code point.
const std::vector<std::uint8_t>& international_signs() {
  static const auto table = [] {
    std::vector<std::uint8_t> out(end_of_code_points);
    const auto fill = [&](const char* category, Sign sign) {
      for (const auto& range : bpe::code_points_of(category))
        for (auto c = range.first; c <= range.last; ++c) out[c] |= sign;
    };
    fill("N", number_sign);
    fill("P", punctuation_sign);
    fill("S", symbol_sign);
    return out;
  }();
  return table;
}

// What the tokenizer zh takes for Chinese characters. The ranges of sacrebleu that name characters beyond U+FFFF name
// others in effect: U+2001 to U+2A6D and U+2F81 to U+2FA1.
constexpr bpe::CodePoints chinese_ranges[] = {{0x2001, 0x2A6D}, {0x2E80, 0x2FDF}, {0x2FF0, 0x303F}, {0x3100, 0x312F},
                                              {0x31A0, 0x31BF}, {0x31C0, 0x31EF}, {0x3200, 0x4DB5}, {0x4E00, 0x9FBB},
                                              {0xF900, 0xFA2D}, {0xFA30, 0xFA6A}, {0xFA70, 0xFAD9}, {0xFE10, 0xFE1F},
                                              {0xFE30, 0xFE4F}, {0xFF00, 0xFFEF}};

bool is_chinese_sign(char32_t c) {
  return std::any_of(std::begin(chinese_ranges), std::end(chinese_ranges),
                     [&](const auto& range) { return c >= range.first && c <= range.last; });
}

void replace_each(std::u32string& text, std::u32string_view from, std::u32string_view to) {
  auto at = text.find(from);
  if (at == text.npos) return;
  std::u32string out;
  std::size_t done = 0;
  for (; at != text.npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = out.append(text, done);
}

// Spaces around each character that fits.
template <class Fits> void set_apart(std::u32string& text, const Fits& fits) {
  std::u32string out;
  out.reserve(text.size() * 2);
  for (const auto c : text) {
    if (fits(c)) (out += U' ').append(1, c) += U' ';
    else out += c;
  }
  text.swap(out);
}

enum class Apart { first, second };

// Spaces around the first or the second character of each pair that fits. Pairs do not overlap.
template <class Fits> void set_apart_in_pairs(std::u32string& text, Apart apart, const Fits& fits) {
  std::u32string out;
  out.reserve(text.size() * 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !fits(text[i], text[i + 1])) {
      out += text[i];
      continue;
    }
    if (apart == Apart::first) ((out += U' ') += text[i]) += U' ';
    else (out += text[i]) += U' ';
    out += text[++i];
    if (apart == Apart::second) out += U' ';
  }
  text.swap(out);
}

void set_western_signs_apart(std::u32string& text) {
  set_apart(text, is_western_sign);
  set_apart_in_pairs(text, Apart::second,
                     [](char32_t a, char32_t b) { return !is_western_digit(a) && is_dot_or_comma(b); });
  set_apart_in_pairs(text, Apart::first,
                     [](char32_t a, char32_t b) { return is_dot_or_comma(a) && !is_western_digit(b); });
  set_apart_in_pairs(text, Apart::second, [](char32_t a, char32_t b) { return is_western_digit(a) && b == '-'; });
}

void apply_13a(std::u32string& text) {
  replace_each(text, U"<skipped>", U"");
  replace_each(text, U"-\n", U"");  // a word that goes on in the next line; lines of files have none
  replace_each(text, U"\n", U" ");
  replace_each(text, U"&quot;", U"\"");
  replace_each(text, U"&amp;", U"&");
  replace_each(text, U"&lt;", U"<");
  replace_each(text, U"&gt;", U">");
  text.insert(text.begin(), U' ');
  text += U' ';
  set_western_signs_apart(text);
}

void apply_international(std::u32string& text) {
  const auto& signs = international_signs();
  const auto is = [&](char32_t c, Sign sign) { return (signs[c] & sign) != 0; };
  set_apart_in_pairs(text, Apart::second,
                     [&](char32_t a, char32_t b) { return !is(a, number_sign) && is(b, punctuation_sign); });
  set_apart_in_pairs(text, Apart::first,
                     [&](char32_t a, char32_t b) { return is(a, punctuation_sign) && !is(b, number_sign); });
  set_apart(text, [&](char32_t c) { return is(c, symbol_sign); });
}

std::u32string_view without_white_end(std::u32string_view text) {
  while (!text.empty() && is_white_space(text.back())) text.remove_suffix(1);
  return text;
}

std::u32string_view without_white_beginning(std::u32string_view text) {
  while (!text.empty() && is_white_space(text.front())) text.remove_prefix(1);
  return text;
}

}  // namespace

const std::vector<std::string>& bleu_tokenizer_names() {
  static const std::vector<std::string> names{"13a", "none", "char", "intl", "zh"};
  return names;
}

BleuTokenizer bleu_tokenizer_of(std::string_view name) {
  const auto& names = bleu_tokenizer_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) {
    const auto hint = base::value_hint(name, names);
    throw base::UsageError(
        base::text("$bleu-tokenizer {} is not known; use {}", name, fmt::join(names, ", ")),
        !hint.empty() ? hint : "char, for languages without spaces; models that divide words need none");
  }
  return static_cast<BleuTokenizer>(at - names.begin());
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

void decode(std::string_view text, std::u32string& out) {
  out.clear();
  for (const auto *at = text.data(), *const end = at + text.size(); at < end;) out += bpe::next_code_point(at);
}

void split(std::u32string_view text, std::vector<std::u32string_view>& words) {
  words.clear();
  for (std::size_t i = 0; i < text.size();) {
    if (is_white_space(text[i])) {
      ++i;
      continue;
    }
    const auto begin = i;
    while (i < text.size() && !is_white_space(text[i])) ++i;
    words.push_back(text.substr(begin, i - begin));
  }
}

void split_for_bleu(std::u32string_view text, BleuTokenizer tokenizer, std::u32string& made,
                    std::vector<std::u32string_view>& words) {
  made = without_white_end(text);
  switch (tokenizer) {
    case BleuTokenizer::none: break;
    case BleuTokenizer::character:
      words.clear();
      for (std::size_t i = 0; i < made.size(); ++i)
        if (!is_white_space(made[i])) words.push_back(std::u32string_view(made).substr(i, 1));
      return;
    case BleuTokenizer::mteval_13a: apply_13a(made); break;
    case BleuTokenizer::international: apply_international(made); break;
    case BleuTokenizer::chinese:
      made = std::u32string(without_white_beginning(made));
      set_apart(made, is_chinese_sign);
      set_western_signs_apart(made);
      break;
  }
  split(made, words);
}

}  // namespace trainyard::data::translation

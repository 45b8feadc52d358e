// One function for each pattern, with the alternatives in the pattern's order.
#include "libtrain/data/bpe/scanner.h"

namespace trainyard::data::bpe {

const char* const gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const qwen_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

bool is_break(char c) { return c == '\r' || c == '\n'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// The end of 's, 't, 're, 've, 'm, 'll or 'd, or `at` if none is there.
const char* behind_contraction(const char* at, const char* end, bool any_case) {
  if (*at != '\'' || end - at < 2) return at;
  const auto letter = [&](int i) { return any_case ? lower(at[i]) : at[i]; };
  const auto first = letter(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (end - at < 3) return at;
  if (any_case && at[1] == '\xC5' && at[2] == '\xBF') return at + 3;  // U+017F, a long s
  const auto second = letter(2);
  const bool whole = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return whole ? at + 3 : at;
}

}  // namespace

std::optional<Scanner> Scanner::of_pattern(std::string_view pattern) {
  if (pattern == gpt2_pattern) return Scanner(Rules::gpt2);
  if (pattern == llama3_pattern) return Scanner(Rules::llama3);
  if (pattern == qwen_pattern) return Scanner(Rules::llama3, 1);
  return std::nullopt;
}

const char* Scanner::behind_run(CharClass of, const char* at, const char* end) const {
  while (at != end) {
    auto next = at;
    if (classes_[next_code_point(next)] != of) break;
    at = next;
  }
  return at;
}

// \s+(?!\S)|\s+ : if text follows a run of white space, the run leaves its last character to that text, unless it has
// only one character.
const char* Scanner::space_piece(const char* at, const char* end) const {
  const char* last = at;
  auto stop = at;
  while (stop != end) {
    auto next = stop;
    if (classes_[next_code_point(next)] != CharClass::space) break;
    last = stop, stop = next;
  }
  return stop == end || last == at ? stop : last;
}

const char* Scanner::gpt2_piece(const char* at, const char* end) const {
  if (const auto* contraction = behind_contraction(at, end, false); contraction != at) return contraction;
  const auto* word = at;
  if (*at == ' ' && at + 1 != end) ++word;
  const auto kind = class_at(word);
  return kind == CharClass::space ? space_piece(at, end) : behind_run(kind, word, end);
}

const char* Scanner::llama3_piece(const char* at, const char* end) const {
  if (const auto* contraction = behind_contraction(at, end, true); contraction != at) return contraction;
  auto second = at;
  const auto kind = classes_[next_code_point(second)];
  if (kind == CharClass::letter) return behind_run(kind, second, end);
  if (kind == CharClass::number) {
    for (int digits = 1; digits < digits_ && second != end && class_at(second) == CharClass::number; ++digits)
      next_code_point(second);
    return second;
  }
  const auto follows = second == end ? CharClass::space : class_at(second);
  if (!is_break(*at) && follows == CharClass::letter) return behind_run(follows, second, end);
  if (kind == CharClass::other || (*at == ' ' && follows == CharClass::other)) {
    const auto* stop = behind_run(CharClass::other, second, end);
    while (stop != end && is_break(*stop)) ++stop;
    return stop;
  }
  // \s*[\r\n]+ : up to the last line break of the white space.
  const auto* stop = behind_run(CharClass::space, at, end);
  for (const auto* c = stop; c != at; --c)
    if (is_break(c[-1])) return c;
  return space_piece(at, end);
}

}  // namespace trainyard::data::bpe

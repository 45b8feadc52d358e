// Scanner: splits text by the well-known patterns of byte-level tokenizers, without a regular expression.
#pragma once

#include "libtrain/data/bpe/unicode_classes.h"

#include <cstddef>
#include <optional>
#include <string_view>

namespace trainyard::data::bpe {

extern const char* const gpt2_pattern;    // of GPT-2, and of ByteLevel with use_regex
extern const char* const llama3_pattern;  // of Llama 3; cl100k's pattern splits at the same places
extern const char* const qwen_pattern;    // of Qwen: that of Llama 3, but each digit is a piece

// These patterns match every text from its beginning without gaps, so a piece ends where the next one begins. Texts
// must be valid UTF-8. Time is linear in the text, whatever it contains.
class Scanner {
 public:
  enum class Rules { gpt2, llama3 };
  // `digits`: of a number in a piece, by the rules of Llama 3.
  explicit Scanner(Rules rules, int digits = 3) : rules_(rules), digits_(digits), classes_(class_table()) {}

  // The scanner that is equivalent to the pattern, if there is one.
  static std::optional<Scanner> of_pattern(std::string_view pattern);

  // The end of the piece that begins at `at`; at < end.
  const char* piece(const char* at, const char* end) const {
    return rules_ == Rules::gpt2 ? gpt2_piece(at, end) : llama3_piece(at, end);
  }

 private:
  CharClass class_at(const char* at) const { return classes_[next_code_point(at)]; }
  const char* behind_run(CharClass of, const char* at, const char* end) const;
  const char* gpt2_piece(const char* at, const char* end) const;
  const char* llama3_piece(const char* at, const char* end) const;
  const char* space_piece(const char* at, const char* end) const;

  Rules rules_;
  int digits_;
  const CharClass* classes_;
};

}  // namespace trainyard::data::bpe

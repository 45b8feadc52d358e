// Pattern: a regular expression of a tokenizer.json, with the meaning that `tokenizers` (Oniguruma) gives it, run by
// PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::data::bpe {

// Translates the expression for PCRE2: \s becomes the property White_Space. InputError names a construct that the two
// libraries read differently, or that this program does not know (\w, \b, \h, nested sets, names of groups, ...).
std::string in_words_of_pcre2(std::string_view expression, const std::string& where);

// Categories and well-known scripts are those of the tables (categories.h), others as the installed PCRE2 defines them.
class Pattern {
 public:
  // InputError for an invalid or unsupported expression.
  Pattern(std::string_view expression, std::string where);
  Pattern(Pattern&&) noexcept;
  ~Pattern();

  struct Match {
    std::size_t begin = 0, end = 0;
  };
  // Memory that one thread needs to match.
  class Memory {
   public:
    explicit Memory(const Pattern& pattern);
    Memory(Memory&&) noexcept;
    ~Memory();

   private:
    friend class Pattern;
    struct Parts;
    std::unique_ptr<Parts> parts_;
  };

  // The first match that begins at or after `from`. `text` must be valid UTF-8, and `from` a boundary of characters.
  // InputError when matching takes more steps or memory than a reasonable pattern needs.
  std::optional<Match> find(std::string_view text, std::size_t from, const Memory& memory) const;

 private:
  struct Code;
  std::string where_;
  std::unique_ptr<Code> code_;
};

}  // namespace trainyard::data::bpe

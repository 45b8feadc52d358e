// Pattern: a regular expression of a tokenizer.json, as `tokenizers` (Oniguruma) reads it, run by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::data::bpe {

// The expression in PCRE2's words: \s becomes the property White_Space. InputError, naming the construct, for what the
// two libraries read differently or this program does not know (\w, \b, \h, nested sets, names of groups, ...).
std::string in_words_of_pcre2(std::string_view expression, const std::string& where);

// Letters and numbers are those that the installed PCRE2 knows.
class Pattern {
 public:
  // InputError for an expression that is none, or is not supported.
  Pattern(std::string_view expression, std::string where);
  Pattern(Pattern&&) noexcept;
  ~Pattern();

  struct Match {
    std::size_t begin = 0, end = 0;
  };
  // The memory that one thread needs to match.
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

  // The first match that begins at `from` or behind it. `text` is valid UTF-8, `from` a boundary of characters.
  // InputError when matching takes more steps or memory than a reasonable pattern needs.
  std::optional<Match> find(std::string_view text, std::size_t from, const Memory& memory) const;

 private:
  struct Code;
  std::string where_;
  std::unique_ptr<Code> code_;
};

}  // namespace trainyard::data::bpe

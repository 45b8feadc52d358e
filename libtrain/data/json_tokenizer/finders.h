// Finder: the matches of a pattern of a tokenizer.json, which is a text or a regular expression.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/data/bpe/pattern.h"
#include "libtrain/data/bpe/unicode_classes.h"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::json_tokenizer {

// A regular expression with memory for every thread that uses it.
class SharedPattern {
 public:
  SharedPattern(std::string_view expression, const std::string& where) : pattern_(expression, where) {}
  const bpe::Pattern& get() const { return pattern_; }
  std::unique_ptr<bpe::Pattern::Memory> take() const;
  void give_back(std::unique_ptr<bpe::Pattern::Memory> one) const;

 private:
  bpe::Pattern pattern_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<bpe::Pattern::Memory>> free_;
};

class Finder {
 public:
  // The key `pattern`: {"String": "ab"} or {"Regex": "a+b"}. InputError for an empty pattern.
  static Finder read(base::SortedJsonObject& o, const std::string& where);
  static Finder of_text(std::string text);
  static Finder of_expression(const std::string& expression, const std::string& where);

  // The expression; empty: it is a text.
  const std::string& expression() const { return expression_; }

  // Calls match(begin, end) in the order of the text. A match may have length 0, but not where the one before it ends.
  template <class Match> void each_match(std::string_view text, const Match& match) const {
    if (pattern_) return each_match_of_pattern(text, match);
    for (auto at = text.find(text_); at != std::string_view::npos;) {
      auto end = at + text_.size();
      if (repeats_)
        while (end < text.size() && text[end] == text_.back()) ++end;
      match(at, end);
      at = text.find(text_, end);
    }
  }

 private:
  template <class Match> void each_match_of_pattern(std::string_view text, const Match& match) const {
    auto memory = pattern_->take();
    auto last = std::string_view::npos;
    for (std::size_t from = 0; from <= text.size();) {
      const auto found = pattern_->get().find(text, from, *memory);
      if (!found) break;
      from = found->end;
      const bool empty = found->begin == found->end;
      if (!empty || found->end != last) match(found->begin, found->end);
      last = found->end;
      if (empty) from = next_place(text, from);
    }
    pattern_->give_back(std::move(memory));
  }
  static std::size_t next_place(std::string_view text, std::size_t from);

  std::string text_, expression_;
  bool repeats_ = false;  // the text, and its last character as often as it follows
  std::shared_ptr<const SharedPattern> pattern_;
};

}  // namespace trainyard::data::json_tokenizer

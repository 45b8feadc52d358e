// Reads patterns; runs of spaces, as many tokenizers replace them, need no regular expression.
#include "libtrain/data/json_tokenizer/finders.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <utility>

namespace trainyard::data::json_tokenizer {

std::unique_ptr<bpe::Pattern::Memory> SharedPattern::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto one = std::move(free_.back());
      free_.pop_back();
      return one;
    }
  }
  return std::make_unique<bpe::Pattern::Memory>(pattern_);
}

void SharedPattern::give_back(std::unique_ptr<bpe::Pattern::Memory> one) const {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(one));
}

Finder Finder::read(base::SortedJsonObject& o, const std::string& where) {
  auto pattern = o.object("pattern");
  const bool is_text = pattern.has("String");
  const auto text = is_text ? pattern.text("String") : pattern.text("Regex");
  pattern.done();
  if (text.empty()) throw base::InputError(where + ": an empty pattern", "it cuts nothing: leave it out");
  return is_text ? of_text(text) : of_expression(text, where);
}

Finder Finder::of_text(std::string text) {
  Finder out;
  out.text_ = std::move(text);
  return out;
}

Finder Finder::of_expression(const std::string& expression, const std::string& where) {
  Finder out;
  out.expression_ = expression;
  if (expression == " {2,}") out.text_ = "  ", out.repeats_ = true;
  else out.pattern_ = std::make_shared<SharedPattern>(expression, where);
  return out;
}

std::size_t Finder::next_place(std::string_view text, std::size_t from) {
  if (from >= text.size()) return from + 1;
  const auto* next = text.data() + from;
  bpe::next_code_point(next);
  return base::size(next - text.data());
}

}  // namespace trainyard::data::json_tokenizer

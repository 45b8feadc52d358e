// Takes stretches without ASCII apart, sorts marks, and composes again.
#include "libtrain/data/unicode/normal_form.h"

#include "libtrain/base/index.h"
#include "libtrain/data/bpe/composition.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/unicode/properties.h"
#include "libtrain/data/unicode/tables.h"

#include <unordered_map>
#include <vector>

namespace trainyard::data::unicode {

namespace {

// The parts of characters with a compatibility form beyond the canonical one.
class CompatibleForms {
 public:
  CompatibleForms() : has_(0x110000) {
    for (const auto& run : compatible_single)
      for (auto c = run.first; c <= run.last; c += run.step) add(c, {run.other + (c - run.first)});
    for (auto at = compatible_long.begin(); at != compatible_long.end();) {
      const auto whole = at[0], count = at[1];
      add(whole, std::u32string(at + 2, at + 2 + count));
      at += 2 + count;
    }
  }
  const std::u32string* of(char32_t c) const { return has_[c] ? &forms_.at(c) : nullptr; }

 private:
  void add(char32_t c, std::u32string parts) {
    has_[c] = true;
    forms_.emplace(c, std::move(parts));
  }
  std::vector<bool> has_;
  std::unordered_map<char32_t, std::u32string> forms_;
};

const CompatibleForms& compatible_forms() {
  static const CompatibleForms made;
  return made;
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

}  // namespace

void append_normal_form(std::string_view text, Form form, std::string& out) {
  const char *at = text.data(), *const end = at + text.size();
  std::u32string parts;
  while (at != end) {
    const char* plain = at;
    while (plain != end && is_ascii(*plain)) ++plain;
    // The last ASCII character may be composed with a mark behind it.
    const auto* stretch = plain == at || plain == end ? plain : plain - 1;
    out.append(at, stretch);
    at = stretch;
    if (at == end) break;
    parts.clear();
    do {
      const auto c = bpe::next_code_point(at);
      const auto* compatible = form == Form::nfd ? nullptr : compatible_forms().of(c);
      if (compatible != nullptr) parts += *compatible;
      else bpe::take_apart(c, parts);
    } while (at != end && !is_ascii(*at));
    bpe::sort_marks(parts);
    if (form == Form::nfkc) bpe::put_together(parts);
    for (const auto c : parts) append(c, out);
  }
}

}  // namespace trainyard::data::unicode

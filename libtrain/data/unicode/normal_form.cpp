// Takes stretches without ASCII apart, sorts marks, and composes again.
#include "libtrain/data/unicode/normal_form.h"

#include "libtrain/base/index.h"
#include "libtrain/data/bpe/composition.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/unicode/properties.h"
#include "libtrain/data/unicode/tables.h"

#include <array>
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

// Whether a character stays, and stays where it is, without composing: it has no parts, and is no mark.
std::vector<bool> all_fixed(Form form) {
  std::vector<bool> out(0x110000);
  std::u32string parts;
  for (char32_t c = 0; c < 0x110000; ++c) {
    parts.clear();
    bpe::take_apart(c, parts);
    out[c] = parts.size() == 1 && parts[0] == c && !bpe::is_mark(c) &&
             (form == Form::nfd || compatible_forms().of(c) == nullptr);
  }
  return out;
}

const std::vector<bool>& fixed_characters(Form form) {
  static const std::array<std::vector<bool>, 2> tables = {all_fixed(Form::nfd), all_fixed(Form::nfkd)};
  return form == Form::nfd ? tables[0] : tables[1];
}

void add_parts(char32_t c, Form form, std::u32string& parts) {
  const auto* compatible = form == Form::nfd ? nullptr : compatible_forms().of(c);
  if (compatible != nullptr) parts += *compatible;
  else bpe::take_apart(c, parts);
}

void append_composed_form(std::string_view text, std::string& out) {
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
    do add_parts(bpe::next_code_point(at), Form::nfkc, parts);
    while (at != end && !is_ascii(*at));
    bpe::sort_marks(parts);
    bpe::put_together(parts);
    for (const auto c : parts) append(c, out);
  }
}

}  // namespace

void append_normal_form(std::string_view text, Form form, std::string& out) {
  if (form == Form::nfkc) return append_composed_form(text, out);
  const auto& fixed = fixed_characters(form);
  const char *at = text.data(), *const end = at + text.size(), *copied = at;
  std::u32string parts;
  while (at != end) {
    if (is_ascii(*at)) {
      ++at;
      continue;
    }
    const auto* stretch = at;
    parts.clear();
    auto c = bpe::next_code_point(at);
    if (fixed[c]) continue;
    out.append(copied, stretch);
    for (copied = at;; copied = at) {
      add_parts(c, form, parts);
      if (at == end) break;
      c = bpe::next_code_point(at);
      if (fixed[c]) break;
    }
    bpe::sort_marks(parts);
    for (const auto part : parts) append(part, out);
  }
  out.append(copied, end);
}

}  // namespace trainyard::data::unicode

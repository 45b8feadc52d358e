// Translates Oniguruma's syntax, as far as PCRE2 gives it the same meaning.
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/data/bpe/categories.h"
#include "libtrain/data/bpe/pattern.h"

#include <algorithm>
#include <array>
#include <vector>

namespace trainyard::data::bpe {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Translation {
 public:
  Translation(std::string_view expression, const std::string& where) : text_(expression), where_(where) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\') escape();
      else if (in_set_) inside_set(c);
      else outside_set(c);
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw base::InputError(
        fmt::format("{}: the pattern {} uses {}, which is not supported", where_, base::excerpt(text_), what),
        "patterns may use literals, sets without sets in them, \\s \\d \\p{...}, (?: (?i: (?= (?! (?<= (?<! (?> and "
        "the quantifiers ? * + {n,m}");
  }
  std::string_view rest() const { return text_.substr(at_); }
  void copy(std::size_t n) {
    out_ += text_.substr(at_, n);
    at_ += n;
  }

  void escape() {
    if (at_ + 1 >= text_.size()) refuse("a backslash at its end");
    const char c = text_[at_ + 1];
    if (c == 's' || c == 'S') {
      out_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      at_ += 2;
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'u') {
      hex(2, 4);
    } else if (c == 'x') {
      if (rest().substr(2).starts_with('{')) return hex(3, rest().find('}') - 3);
      if (rest().size() < 4 || rest()[2] > '7') refuse("a byte of a character as \\x");
      hex(2, 2);
    } else if (c == 'd' || c == 'D') {
      add_property("Nd", "Nd", c == 'D');
      at_ += 2;
    } else if (std::string_view("rntfaeAz").find(c) != std::string_view::npos) {
      if (in_set_ && (c == 'A' || c == 'z')) refuse(fmt::format("\\{} in a set", c));
      copy(2);
    } else if (is_ascii_letter(c) || is_digit(c) || (static_cast<unsigned char>(c) & 0x80) != 0) {
      refuse(base::excerpt(text_.substr(at_, 2)));
    } else {
      copy(2);
    }
  }

  // A category of one or two letters, or a script. PCRE2 reads the name of a script alone as including its script
  // extensions, so "sc:" is added.
  void property() {
    const auto close = rest().find('}');
    if (!rest().substr(2).starts_with('{') || close == std::string_view::npos) refuse("\\p without {...}");
    const auto name = rest().substr(3, close - 3);
    if (!std::all_of(name.begin(), name.end(), [](char c) { return is_ascii_letter(c) || c == '_'; }))
      refuse(base::excerpt(rest().substr(0, close + 1)));
    if (folding() && in_set_) refuse("\\p in a set in (?i:...)");  // one library folds it, the other does not
    const bool is_script = name.size() > 2 || name == "Yi";
    add_property(name, fmt::format("{}{}", is_script ? "sc:" : "", name), rest()[1] == 'P');
    at_ += close + 1;
  }

  // With the code points of our tables, where PCRE2 has others.
  void add_property(std::string_view name, const std::string& item, bool negated) {
    const auto set = set_item_of(name, item);
    if (in_set_ || set.as_in_pcre2) out_ += negated ? set.outside : set.inside;
    else
      out_ += fmt::format("{}[{}{}]{}", folding() ? "(?-i:" : "", negated ? "^" : "", set.inside, folding() ? ")" : "");
  }

  void hex(std::size_t skip, std::size_t digits) {
    const auto number = rest().substr(std::min(skip, rest().size())).substr(0, digits);
    if (number.size() != digits || number.empty() || number.size() > 6 ||
        number.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      refuse("a number of a character that is none");
    if (folding() && std::stoul(std::string(number), nullptr, 16) >= 0x80)
      refuse("characters outside ASCII in (?i:...)");
    out_ += fmt::format("\\x{{{}}}", number);
    at_ += skip + digits + (skip == 3 ? 1 : 0);
  }

  void inside_set(char c) {
    if (c == '[') refuse("a set in a set");
    if (rest().starts_with("&&")) refuse("an intersection of sets");
    if (c == ']') in_set_ = false;
    copy(1);
  }

  void outside_set(char c) {
    if (c == '[') {
      in_set_ = true;
      copy(rest().starts_with("[^") ? 2 : 1);
      if (rest().starts_with(']')) refuse("a set that begins with ]");
    } else if (c == '(') {
      group();
    } else if (c == ')') {
      if (!folded_.empty()) folded_.pop_back();
      copy(1);
    } else if (c == '{') {
      quantifier();
    } else {
      if (folding()) folded_letter(c);
      copy(1);
    }
  }

  void group() {
    if (rest().starts_with("(*")) refuse("(*");
    std::size_t length = 1;
    if (rest().starts_with("(?")) {
      constexpr std::array<std::string_view, 7> known{"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
      const auto found = std::find_if(known.begin(), known.end(), [&](auto k) { return rest().starts_with(k); });
      if (found == known.end()) refuse(base::excerpt(rest().substr(0, 4)));
      length = found->size();
    }
    folded_.push_back(folding() || rest().starts_with("(?i:"));
    copy(length);
  }

  void quantifier() {
    const auto close = rest().find('}');
    const auto inner = rest().substr(1, close == std::string_view::npos ? 0 : close - 1);
    if (inner.empty() || !is_digit(inner[0]) || inner.find_first_not_of("0123456789,") != std::string_view::npos)
      refuse("{ that begins no {n,m}");
    copy(close + 1);
    if (rest().starts_with('+') || rest().starts_with('?')) refuse(fmt::format("{{n,m}}{}", rest()[0]));
  }

  bool folding() const { return !folded_.empty() && folded_.back(); }

  // Without case, one letter outside ASCII may equal two letters inside it ("ss", "st", "ff", "fi", "fl"). The two
  // libraries differ in this.
  void folded_letter(char c) const {
    if ((static_cast<unsigned char>(c) & 0x80) != 0) refuse("characters outside ASCII in (?i:...)");
    auto before = at_;  // the letter before, whatever groups lie between
    while (before > 0 && std::string_view("()?:").find(text_[before - 1]) != std::string_view::npos) --before;
    if (before == 0) return;
    const auto lower = [](char x) { return x >= 'A' && x <= 'Z' ? static_cast<char>(x + 32) : x; };
    const std::string pair{lower(text_[before - 1]), lower(c)};
    for (const char* two : {"ss", "st", "ff", "fi", "fl"})
      if (pair == two) refuse(fmt::format("'{}' in (?i:...)", pair));
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
  bool in_set_ = false;
  std::vector<bool> folded_;  // for each open group: it ignores case
  std::string out_;
};

}  // namespace

std::string in_words_of_pcre2(std::string_view expression, const std::string& where) {
  return Translation(expression, where).run();
}

}  // namespace trainyard::data::bpe

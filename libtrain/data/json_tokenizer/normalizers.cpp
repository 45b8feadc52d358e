// The kinds of normalizers, one class each, and their form in the file.
#include "libtrain/data/json_tokenizer/normalizers.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/data/bpe/byte_alphabet.h"
#include "libtrain/data/bpe/composition.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/json_tokenizer/charsmap.h"
#include "libtrain/data/json_tokenizer/finders.h"
#include "libtrain/data/unicode/normal_form.h"
#include "libtrain/data/unicode/properties.h"

#include <algorithm>
#include <cstring>

namespace trainyard::data::json_tokenizer {

namespace {

using Object = base::SortedJsonObject;

constexpr int deepest_sequence = 4;
constexpr std::size_t longest_content = 256;  // bytes
constexpr std::size_t most_normalizers = 32;

bool is_ascii_byte(char c) { return static_cast<unsigned char>(c) < 0x80; }
bool is_all_ascii(std::string_view text) { return std::all_of(text.begin(), text.end(), is_ascii_byte); }

// Calls character(code point, its bytes) in the order of the text.
template <class Character> void each_character(std::string_view text, const Character& character) {
  for (const char *at = text.data(), *const end = at + text.size(); at != end;) {
    const auto* begin = at;
    const auto c = bpe::next_code_point(at);
    character(c, std::string_view(begin, base::size(at - begin)));
  }
}

class Nfc : public Normalizer {
 public:
  void apply(Text& text) const override {
    auto& room = text.room();
    if (bpe::composed(text.get(), room).data() != text.get().data()) text.take();
  }
};

class NormalForm : public Normalizer {
 public:
  explicit NormalForm(unicode::Form form) : form_(form) {}
  void apply(Text& text) const override {
    if (is_all_ascii(text.get())) return;
    unicode::append_normal_form(text.get(), form_, text.room());
    text.take();
  }

 private:
  unicode::Form form_;
};

class LowerCase : public Normalizer {
 public:
  void apply(Text& text) const override {
    auto& out = text.room();
    const auto all = text.get();
    out.reserve(all.size());
    const auto* small = unicode::small_letters();
    for (const char *at = all.data(), *const end = at + all.size(); at != end;) {
      if (is_ascii_byte(*at)) {
        const char c = *at++;
        out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
        continue;
      }
      const auto* begin = at;
      const auto c = bpe::next_code_point(at);
      if (small[c] == 0) out.append(begin, at);
      else unicode::append(static_cast<char32_t>(static_cast<std::int32_t>(c) + small[c]), out);
      if (c == 0x130) unicode::append(0x307, out);
    }
    text.take();
  }
};

// Removes the characters with a property.
class Without : public Normalizer {
 public:
  explicit Without(unicode::Property property) : property_(property) {}
  void apply(Text& text) const override {
    const auto all = text.get();
    const auto* properties = unicode::properties();
    std::string* out = nullptr;
    const char *const end = all.data() + all.size(), *kept = all.data();
    for (const char* at = kept; at != end;) {
      if (is_ascii_byte(*at)) {  // has none of these properties
        ++at;
        continue;
      }
      const auto* here = at;
      if ((properties[bpe::next_code_point(at)] & property_) == 0) continue;
      if (out == nullptr) out = &text.room();
      if (here == all.data()) text.lost_start();
      out->append(kept, here);
      kept = at;
    }
    if (out == nullptr) return;
    out->append(kept, end);
    text.take();
  }

 private:
  unicode::Property property_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(Text& text) const override {
    auto rest = text.get();
    const auto* properties = unicode::properties();
    const auto* at = rest.data();
    for (const auto* const end = at + rest.size(); left_ && !text.goes_on() && at != end;) {
      const auto* next = at;
      if ((properties[bpe::next_code_point(next)] & unicode::is_space) == 0) break;
      at = next;
    }
    if (at != rest.data()) text.lost_start();
    rest.remove_prefix(base::size(at - rest.data()));
    while (right_ && !rest.empty()) {
      auto begin = rest.size() - 1;
      while (begin > 0 && !is_base(rest[begin])) --begin;
      const auto* last = rest.data() + begin;
      if ((properties[bpe::next_code_point(last)] & unicode::is_space) == 0) break;
      rest.remove_suffix(rest.size() - begin);
    }
    text.keep(rest);
  }

 private:
  static bool is_base(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }
  bool left_, right_;
};

// Removes controls, and makes white space and invisible characters spaces.
class Nmt : public Normalizer {
 public:
  void apply(Text& text) const override {
    auto& out = text.room();
    bool first = true;
    each_character(text.get(), [&](char32_t c, std::string_view bytes) {
      if (is_removed(c) && first) text.lost_start();
      if (!is_removed(c)) out += becomes_space(c) ? std::string_view(" ") : bytes;
      first = false;
    });
    text.take();
  }

 private:
  static bool is_removed(char32_t c) {
    return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  }
  static bool becomes_space(char32_t c) {
    return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  }
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string what) : what_(std::move(what)) {}
  void apply(Text& text) const override {
    if (text.get().empty() || text.goes_on()) return;
    (text.room() = what_) += text.get();
    text.take();
  }

 private:
  std::string what_;
};

class Replace : public Normalizer {
 public:
  Replace(Finder finder, std::string content) : finder_(std::move(finder)), content_(std::move(content)) {}
  void apply(Text& text) const override {
    const auto all = text.get();
    std::string* out = nullptr;
    std::size_t done = 0;
    finder_.each_match(all, [&](std::size_t begin, std::size_t end) {
      if (out == nullptr) out = &text.room();
      out->append(all, done, begin - done);
      // The first character of what is replaced is lost where more than one goes, or nothing comes for it.
      if (begin == 0 && end > 0 && (content_.empty() || characters(all.substr(0, end)) > 1)) text.lost_start();
      *out += content_;
      text.require_size(out->size());
      done = end;
    });
    if (out == nullptr) return;
    out->append(all, done);
    text.take();
  }

 private:
  static std::int64_t characters(std::string_view text) {
    return std::count_if(text.begin(), text.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  }
  Finder finder_;
  std::string content_;
};

class Alphabet : public Normalizer {
 public:
  void apply(Text& text) const override {
    auto& out = text.room();
    for (const char c : text.get()) out += bpe::character_of(static_cast<unsigned char>(c));
    text.take();
  }
};

// The first half of BERT's normalizer, in one pass: clean_text and handle_chinese_chars.
class BertCleaning : public Normalizer {
 public:
  BertCleaning(bool cleans, bool chinese) : cleans_(cleans), chinese_(chinese) {}
  void apply(Text& text) const override {
    auto& out = text.room();
    const auto all = text.get();
    out.reserve(all.size() + all.size() / 8);
    bool first = true;
    const auto* properties = unicode::properties();
    each_character(all, [&](char32_t c, std::string_view bytes) {
      const auto has = properties[c];
      if (cleans_ && (has & unicode::is_not_clean) != 0) {
        if (first) text.lost_start();
      } else if (cleans_ && (has & unicode::is_space) != 0) {
        out += ' ';
      } else if (chinese_ && (has & unicode::is_chinese) != 0) {
        ((out += ' ') += bytes) += ' ';
      } else {
        out += bytes;
      }
      first = false;
    });
    text.take();
  }

 private:
  bool cleans_, chinese_;
};

void add_bert(Object& o, Normalizers& out) {
  const auto flag = [&](const char* key) { return !o.has(key) || o.boolean(key); };
  const bool cleans = flag("clean_text"), chinese = flag("handle_chinese_chars"), lower = flag("lowercase");
  const bool strips = o.has("strip_accents") && !o.at("strip_accents").is_null() ? o.boolean("strip_accents") : lower;
  if (cleans || chinese) out.push_back(std::make_unique<BertCleaning>(cleans, chinese));
  if (strips) {
    out.push_back(std::make_unique<NormalForm>(unicode::Form::nfd));
    out.push_back(std::make_unique<Without>(unicode::is_nonspacing_mark));
  }
  if (lower) out.push_back(std::make_unique<LowerCase>());
}

void add_normalizer(const nlohmann::json& part, const std::string& where, int depth, Normalizers& out);

void add_sequence(Object& o, const std::string& where, int depth, Normalizers& out) {
  if (depth >= deepest_sequence)
    throw base::InputError(fmt::format("{}: sequences in sequences, more than {} deep", where, deepest_sequence));
  for (const auto& part : o.array("normalizers")) add_normalizer(part, where, depth + 1, out);
}

void add_normalizer(const nlohmann::json& part, const std::string& where, int depth, Normalizers& out) {
  Object o(part, where);
  const auto type = o.text("type");
  const auto add = [&]<class Kind>(std::unique_ptr<Kind> one) { out.push_back(std::move(one)); };
  if (type == "Sequence") add_sequence(o, where, depth, out);
  else if (type == "NFC") add(std::make_unique<Nfc>());
  else if (type == "NFD") add(std::make_unique<NormalForm>(unicode::Form::nfd));
  else if (type == "NFKC") add(std::make_unique<NormalForm>(unicode::Form::nfkc));
  else if (type == "NFKD") add(std::make_unique<NormalForm>(unicode::Form::nfkd));
  else if (type == "Lowercase") add(std::make_unique<LowerCase>());
  else if (type == "StripAccents") add(std::make_unique<Without>(unicode::is_combining_mark));
  else if (type == "Nmt") add(std::make_unique<Nmt>());
  else if (type == "ByteLevel") add(std::make_unique<Alphabet>());
  else if (type == "Prepend") add(std::make_unique<Prepend>(o.text("prepend", longest_content)));
  else if (type == "BertNormalizer") add_bert(o, out);
  else if (type == "Strip") add(std::make_unique<Strip>(o.boolean("strip_left"), o.boolean("strip_right")));
  else if (type == "Precompiled")
    add(std::make_unique<Charsmap>(
        o.at("precompiled_charsmap").is_string() ? o.text("precompiled_charsmap", 1 << 24) : std::string(), where));
  else if (type == "Replace") {
    auto finder = Finder::read(o, where);
    add(std::make_unique<Replace>(std::move(finder), o.text("content", longest_content)));
  } else
    throw base::InputError(
        fmt::format("{}: the normalizer {} is not supported", where, base::excerpt(type)),
        "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Strip and "
        "StripAccents are, alone or in a Sequence");
  o.done();
  if (out.size() > most_normalizers)
    throw base::InputError(fmt::format("{}: more than {} normalizers", where, most_normalizers));
}

}  // namespace

void Text::refuse_size() {
  throw base::InputError(
      fmt::format("the normalizers of the tokenizer make a text more than {} times as long", most_growth),
      "is its tokenizer.json damaged?");
}

Normalizers read_normalizers(Object& root) {
  Normalizers out;
  if (root.has("normalizer") && !root.at("normalizer").is_null())
    add_normalizer(root.at("normalizer"), root.where() + ": normalizer", 0, out);
  return out;
}

}  // namespace trainyard::data::json_tokenizer

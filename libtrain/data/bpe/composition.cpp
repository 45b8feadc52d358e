// Splits text before characters that nothing before them changes. A part with a mark is decomposed, sorted and composed
// again.
#include "libtrain/data/bpe/composition.h"

#include "libtrain/base/index.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/unicode/properties.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace trainyard::data::bpe {

namespace {

// Hangul, by the rule of Unicode (chapter 3.12).
constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, trails = 0x11A7;
constexpr char32_t lead_count = 19, vowel_count = 21, trail_count = 28, block = vowel_count * trail_count,
                   syllable_count = lead_count * block;
// The first byte of U+0300. Text of lower characters alone does not change.
constexpr unsigned char first_lead_byte = 0xCC;

// How a character can affect its neighbours.
struct Character {
  std::uint8_t combining = 0;  // its combining class
  bool stays = true;           // no preceding character changes it, except by sorting
  bool has_parts = false;
};

class Tables {
 public:
  Tables() : characters_(0x110000) {
    for (const auto& range : combining_classes)
      for (auto c = range.first; c <= range.last; ++c) characters_[c].combining = range.value;
    for (const auto& d : composed_pairs) {
      parts_.emplace(d.whole, &d);
      characters_[d.whole].has_parts = true;
      whole_.emplace(key(d.first, d.second), d.whole);
      characters_[d.second].stays = false;
    }
    for (const auto& d : taken_apart) {
      parts_.emplace(d.whole, &d);
      characters_[d.whole].has_parts = true;
      characters_[d.whole].stays = false;
    }
    for (char32_t c = vowels; c < vowels + vowel_count; ++c) characters_[c].stays = false;
    for (char32_t c = trails + 1; c < trails + trail_count; ++c) characters_[c].stays = false;
  }
  const Character& of(char32_t c) const { return characters_[c]; }

  void take_apart(char32_t c, std::u32string& out) const {
    if (c >= syllables && c < syllables + syllable_count) {
      const auto at = c - syllables;
      for (const auto part : {leads + at / block, vowels + at % block / trail_count, trails + at % trail_count})
        if (part != trails) out.push_back(part);
      return;
    }
    if (!characters_[c].has_parts) {
      out.push_back(c);
      return;
    }
    const auto found = parts_.find(c);
    take_apart(found->second->first, out);
    if (found->second->second != 0) take_apart(found->second->second, out);
  }
  // The composed character; 0: there is none.
  char32_t whole(char32_t first, char32_t second) const {
    if (first >= leads && first < leads + lead_count && second >= vowels && second < vowels + vowel_count)
      return syllables + (first - leads) * block + (second - vowels) * trail_count;
    if (first >= syllables && first < syllables + syllable_count && (first - syllables) % trail_count == 0 &&
        second > trails && second < trails + trail_count)
      return first + (second - trails);
    const auto found = whole_.find(key(first, second));
    return found == whole_.end() ? 0 : found->second;
  }

 private:
  static std::uint64_t key(char32_t first, char32_t second) { return std::uint64_t{first} << 32 | second; }

  std::vector<Character> characters_;
  std::unordered_map<char32_t, const Decomposition*> parts_;
  std::unordered_map<std::uint64_t, char32_t> whole_;
};

const Tables& tables() {
  static const Tables made;
  return made;
}

}  // namespace

bool is_mark(char32_t c) { return tables().of(c).combining != 0; }

void take_apart(char32_t c, std::u32string& out) { tables().take_apart(c, out); }

void sort_marks(std::u32string& text) {
  const auto& t = tables();
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = std::max(end, begin + 1)) {
    for (end = begin; end < text.size() && t.of(text[end]).combining != 0; ++end) {}
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](char32_t a, char32_t b) { return t.of(a).combining < t.of(b).combining; });
  }
}

// A character is composed with the last letter before it, unless a mark of the same or a higher class is between them.
void put_together(std::u32string& text) {
  const auto& t = tables();
  std::size_t kept = 0, letter = std::u32string::npos;
  int between = 0;  // the highest class after the letter; -1: no mark
  for (const auto c : text) {
    const int combining = t.of(c).combining;
    const bool reaches = letter != std::u32string::npos && between < combining;
    if (const auto whole = reaches ? t.whole(text[letter], c) : 0; whole != 0) {
      text[letter] = whole;
      continue;
    }
    if (combining == 0) letter = kept, between = -1;
    else between = combining;
    text[kept++] = c;
  }
  text.resize(kept);
}

namespace {

void append_composed(std::string_view part, std::string& out) {
  std::u32string text;
  for (const char *at = part.data(), *end = at + part.size(); at != end;)
    tables().take_apart(next_code_point(at), text);
  sort_marks(text);
  put_together(text);
  for (const auto c : text) unicode::append(c, out);
}

}  // namespace

std::string_view composed(std::string_view text, std::string& memory) {
  const char *const begin = text.data(), *const end = begin + text.size();
  // part: the beginning of the open part.
  const char *copied = begin, *part = begin;
  bool changes = false, any = false;
  std::uint8_t before = 0;
  const auto close = [&](const char* at) {
    if (changes) {
      if (!any) memory.clear(), any = true;
      memory.append(copied, part);
      append_composed({part, base::size(at - part)}, memory);
      copied = at;
    }
    part = at, changes = false;
  };
  for (const char* at = begin; at != end;) {
    const auto* here = at;
    if (static_cast<unsigned char>(*at) < first_lead_byte) {
      close(here);
      do part = at, next_code_point(at);
      while (at != end && static_cast<unsigned char>(*at) < first_lead_byte);
      before = 0;
      continue;
    }
    const auto& c = tables().of(next_code_point(at));
    if (c.combining == 0 && c.stays) {
      close(here);
    } else {
      changes |= !c.stays || c.combining < before;
    }
    before = c.combining;
  }
  close(end);
  if (!any) return text;
  memory.append(copied, end);
  return memory;
}

}  // namespace trainyard::data::bpe

// Reads the double array of Darts, and runs of ASCII without looking at it.
#include "libtrain/data/json_tokenizer/charsmap.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/unicode/graphemes.h"

#include <fmt/format.h>

#include <cstring>

namespace trainyard::data::json_tokenizer {

namespace {

constexpr std::size_t longest_grapheme = 6;  // bytes; a longer one is looked up by its characters

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string out;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const int digit = base64_digit(c);
    if (digit < 0) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (have += 6; have >= 8) out += static_cast<char>(bits >> (have -= 8) & 0xFF);
  }
  return out;
}

bool is_base_character(char c) { return static_cast<unsigned char>(c) < 0x80; }

// Fields of a unit.
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
std::uint32_t label_of(std::uint32_t unit) { return unit & ((1u << 31) | 0xFFu); }
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t place_of_text(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }

}  // namespace

Charsmap::Charsmap(std::string_view base64, const std::string& where) {
  const auto refuse = [&](const char* why) {
    return base::InputError(fmt::format("{}: precompiled_charsmap {}", where, why), "is the file damaged?");
  };
  const auto raw = from_base64(base64);
  if (!raw) throw refuse("is not written in base64");
  std::uint32_t bytes = 0;
  if (raw->size() < sizeof bytes) throw refuse("is too short");
  std::memcpy(&bytes, raw->data(), sizeof bytes);
  if (bytes % 4 != 0 || bytes == 0 || bytes > raw->size() - sizeof bytes) throw refuse("has no whole double array");
  units_.resize(bytes / 4);
  std::memcpy(units_.data(), raw->data() + sizeof bytes, bytes);
  texts_ = raw->substr(sizeof bytes + bytes);
  if (texts_.empty() || texts_.back() != '\0') texts_ += '\0';
  if (!is_utf8(texts_)) throw refuse("has texts that are no UTF-8");
  for (int c = 0; c < 128; ++c) {
    const char one = static_cast<char>(c);
    base::at(plain_, c) = !find({&one, 1});
  }
  if (find("\r\n")) base::at(plain_, '\r') = false;  // a grapheme of two plain characters
}

std::optional<std::string_view> Charsmap::find(std::string_view part) const {
  std::uint32_t at = offset_of(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return {};
    at ^= byte;
    if (at >= units_.size() || label_of(units_[at]) != byte) return {};
    const auto unit = units_[at];
    at ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const auto value = at < units_.size() ? place_of_text(units_[at]) : texts_.size();
    const bool is_character = value < texts_.size() && (static_cast<unsigned char>(texts_[value]) & 0xC0) != 0x80;
    if (!is_character) return {};
    return std::string_view(texts_.c_str() + value);
  }
  return {};
}

void Charsmap::apply(Text& text) const {
  const auto all = text.get();
  auto& out = text.room();
  out.reserve(all.size() + all.size() / 8);
  bool changed = false;
  const auto replaced = [&](std::string_view part) {
    const auto found = find(part);
    if (!found) return false;
    changed = true;
    out += *found;
    text.require_size(out.size());
    return true;
  };
  for (std::size_t at = 0; at < all.size();) {
    // A plain character is a grapheme where ASCII follows, but for a line end of two characters.
    auto end = at;
    while (end < all.size() && is_plain(all[end])) ++end;
    if (end > at && end < all.size() && (!is_base_character(all[end]) || (all[end - 1] == '\r' && all[end] == '\n')))
      --end;
    if (end > at) out.append(all, at, end - at);
    at = end;
    if (at == all.size()) break;
    const auto grapheme = all.substr(at, unicode::grapheme_bytes(all.substr(at)));
    at += grapheme.size();
    if (grapheme.size() < longest_grapheme && replaced(grapheme)) continue;
    for (const char *c = grapheme.data(), *const stop = c + grapheme.size(); c != stop;) {
      const auto* begin = c;
      bpe::next_code_point(c);
      if (const std::string_view one(begin, base::size(c - begin)); !replaced(one)) out += one;
    }
  }
  // A first character that becomes nothing does not count as lost in the reference.
  if (changed) text.take();
}

}  // namespace trainyard::data::json_tokenizer

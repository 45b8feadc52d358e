// Recognises well-formed byte sequences of UTF-8.
#include "tools/generate/utf8.h"

namespace trainyard::generate {

Utf8Head utf8_head(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return {Character::whole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Character::broken, 1};
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (i == text.size()) return {Character::cut, i};
    // Bounds of the second byte exclude overlong forms, surrogates, and code points beyond U+10FFFF.
    const unsigned low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (at(i) < low || at(i) > high) return {Character::broken, i};
  }
  return {Character::whole, bytes};
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto head = utf8_head(text);
    out += head.kind == Character::whole ? text.substr(0, head.bytes) : replacement;
    text.remove_prefix(head.bytes);
  }
  return out;
}

}  // namespace trainyard::generate

// A decoder of UTF-8 (RFC 3629), and two ways to write text that is not fit for display.
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace trainyard::base {

namespace {

constexpr std::string_view percent = "percent:";

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8 here
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + bytes > text.size()) return {};
  char32_t code = first & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0u) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, bytes};
}

bool is_obeyed(char32_t c) {
  if (c < 0x20) return c != '\n' && c != '\t';
  return (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    if (bytes == 0) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    else if (!is_obeyed(code)) out += text.substr(at, bytes);
    else
      out += code < 0x100 ? fmt::format("\\x{:02x}", static_cast<unsigned>(code))
                          : fmt::format("\\u{:04x}", static_cast<unsigned>(code));
    at += bytes == 0 ? 1 : bytes;
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else out += c;
  }
  return out;
}

std::vector<std::string> comma_separated(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const auto comma = text.find(',');
    auto part = text.substr(0, comma);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part.remove_suffix(part.size() - (part.find_last_not_of(' ') + 1));
    parts.emplace_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::string listed(const std::vector<std::string>& words, std::string_view last) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && i + 1 < words.size()) out.append(", ");
    else if (i > 0) out.append(" ").append(last).append(" ");
    out.append(words[i]);
  }
  return out;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto bytes = character_at(text, at).bytes;
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

std::string text_of_path(std::string_view path) {
  if (is_utf8(path) && !path.starts_with(percent)) return std::string(path);
  std::string out(percent);
  for (const char c : path) {
    if (c >= ' ' && c < 0x7f && c != '%') out += c;
    else out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string path_of_text(std::string_view text) {
  if (!text.starts_with(percent)) return std::string(text);
  text.remove_prefix(percent.size());
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned char byte = 0;
    const auto digits = text.substr(at, 3);
    if (digits.size() == 3 && digits[0] == '%' &&
        std::from_chars(digits.data() + 1, digits.data() + 3, byte, 16).ptr == digits.data() + 3) {
      out += static_cast<char>(byte);
      at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

}  // namespace trainyard::base

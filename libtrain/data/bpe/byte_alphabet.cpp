// Bytes that are printable stay as they are; the other bytes follow in order.
#include "libtrain/data/bpe/byte_alphabet.h"

#include "libtrain/data/bpe/unicode_classes.h"

#include <array>

namespace trainyard::data::bpe {

namespace {

constexpr char32_t first_stand_in = 0x100;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> code_points{};
  std::array<int, 0x180> bytes{};  // by code point; -1: of no byte
  Alphabet() {
    bytes.fill(-1);
    auto next = first_stand_in;
    for (unsigned b = 0; b < 256; ++b) {
      code_points[b] = stands_for_itself(b) ? b : next++;
      bytes[code_points[b]] = static_cast<int>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet one;
  return one;
}

}  // namespace

std::string character_of(unsigned char byte) {
  const auto c = alphabet().code_points[byte];
  if (c < 0x80) return {static_cast<char>(c)};
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

std::optional<std::string> bytes_of(std::string_view token) {
  std::string out;
  for (const char* at = token.data(); at != token.data() + token.size();) {
    const auto c = next_code_point(at);
    if (c >= alphabet().bytes.size() || alphabet().bytes[c] < 0) return std::nullopt;
    out += static_cast<char>(alphabet().bytes[c]);
  }
  return out;
}

}  // namespace trainyard::data::bpe

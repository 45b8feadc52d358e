// Tokens of single bytes, as SentencePiece writes them.
#include "libtrain/data/pieces/model.h"

#include <fmt/format.h>

#include <charconv>

namespace trainyard::data::pieces {

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 ? byte : -1;
}

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace trainyard::data::pieces

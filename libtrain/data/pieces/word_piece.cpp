// Walks down the tree of tokens from each place where a token ended.
#include "libtrain/data/pieces/word_piece.h"

#include <algorithm>

namespace trainyard::data::pieces {

WordPiece::WordPiece(const std::vector<std::string>& tokens, Options options)
    : trie_(tokens), options_(std::move(options)), inside_(trie_.find(options_.continuing_prefix)) {}

void WordPiece::encode(std::string_view piece, Memory&, std::vector<std::int32_t>& out) const {
  const auto begin = out.size();
  const auto characters =
      std::count_if(piece.begin(), piece.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  bool known = characters <= options_.longest_word;
  for (std::size_t at = 0; known && at < piece.size();) {
    auto node = at == 0 ? ByteTrie::root : inside_;
    std::size_t end = 0;
    std::int32_t token = -1;
    const bool possible = at == 0 || inside_ != 0 || options_.continuing_prefix.empty();
    for (auto next = at; possible && next < piece.size();) {
      node = trie_.child(node, static_cast<unsigned char>(piece[next++]));
      if (node == 0) break;
      if (trie_.token(node) >= 0) token = trie_.token(node), end = next;
    }
    known = token >= 0;
    out.push_back(token);
    at = end;
  }
  if (known) return;
  out.resize(begin);
  out.push_back(options_.unknown);
}

}  // namespace trainyard::data::pieces

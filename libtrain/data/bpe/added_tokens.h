// AddedTokens: tokens that are searched in the text itself, before the text is split.
#pragma once

#include "libtrain/data/bpe/composition.h"
#include "libtrain/data/bpe/definition.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trainyard::data::bpe {

// A tree of tokens for searching. Of the matches that begin first, the longest is taken, and the search continues after
// it. It takes time linear in the text, because each position is compared with a tree of short tokens.
class TokenTree {
 public:
  TokenTree(const std::vector<AddedToken>& tokens, bool normalized);
  bool empty() const { return nodes_.size() == 1; }

  // Calls text(part) and token(id) in the order of the text. Parts are not empty.
  template <class Text, class Token> void cut(std::string_view all, const Text& text, const Token& token) const {
    std::size_t done = 0, at = 0;
    for (Found found; (found = find(all, at)).token != nullptr;) {
      auto begin = found.begin, end = found.begin + found.token->text.size();
      at = end;
      if (found.token->single_word && is_inside_word(all, begin, end)) continue;
      if (found.token->left_strip) begin = std::max(done, before_space(all, begin));
      if (found.token->right_strip) end = behind_space(all, end);
      if (done < begin) text(all.substr(done, begin - done));
      token(found.token->id);
      done = end;
    }
    if (done < all.size()) text(all.substr(done));
  }

 private:
  struct Found {
    std::size_t begin = 0;
    const AddedToken* token = nullptr;
  };
  struct Node {
    std::int32_t token = -1;  // index into tokens_
  };
  Found find(std::string_view text, std::size_t from) const;
  const AddedToken* longest_at(std::string_view text) const;
  static bool is_inside_word(std::string_view text, std::size_t begin, std::size_t end);
  static std::size_t before_space(std::string_view text, std::size_t end);
  static std::size_t behind_space(std::string_view text, std::size_t begin);

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // key: (node, byte)
  std::array<bool, 256> begins_{};
  int first_byte_ = -1;  // the first byte, if all tokens begin with the same one
};

// Searches first for the tokens that are not `normalized`, then, in the text between them, for the `normalized` ones.
// If NFC is asked for, it applies to that text and to the tokens that are searched in it.
class AddedTokens {
 public:
  AddedTokens(const std::vector<AddedToken>& tokens, bool composes)
      : composes_(composes), first_(tokens, false), second_(composes ? composed_tokens(tokens) : tokens, true) {}
  template <class Text, class Token> void cut(std::string_view all, const Text& text, const Token& token) const {
    std::string memory;
    first_.cut(
        all,
        [&](std::string_view part) {
          if (composes_) part = composed(part, memory);
          if (second_.empty()) text(part);
          else second_.cut(part, text, token);
        },
        token);
  }

 private:
  static std::vector<AddedToken> composed_tokens(std::vector<AddedToken> tokens);

  bool composes_;
  TokenTree first_, second_;
};

}  // namespace trainyard::data::bpe

// AddedTokens: tokens that are searched in the text itself, before the text is split.
#pragma once

#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/json_tokenizer/normalizers.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trainyard::data::json_tokenizer {

// A token that is matched in the text before anything else.
struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool normalized = false;                       // searched after the tokens that are not normalized
  bool special = false;                          // a sign and no text, but still found in text
  bool left_strip = false, right_strip = false;  // also takes the white space beside it
  bool single_word = false;                      // not found where a word character is next to it
};

// A tree of tokens for searching. Of the matches that begin first, the longest is taken, and the search continues after
// it. It takes time linear in the text, because each position is compared with a tree of short tokens.
class TokenTree {
 public:
  enum class Special { is_token, is_text };  // text: a special token is found, and passed over as a whole
  TokenTree(const std::vector<AddedToken>& tokens, bool normalized, Special special);
  bool empty() const { return nodes_.size() == 1; }

  // Calls text(part) and token(id) in the order of the text. Parts are not empty. A token inside the white space that
  // the one before it took is a token too, and text then goes on behind it: white space may so count twice.
  template <class Text, class Token> void cut(std::string_view all, const Text& text, const Token& token) const {
    std::size_t done = 0, at = 0, space_end = 0;
    for (Found found; (found = find(all, at)).token != nullptr;) {
      auto begin = found.begin, end = found.begin + found.token->text.size();
      at = end;
      if (special_ == Special::is_text && found.token->special) continue;
      if (found.token->single_word && is_inside_word(all, begin, end)) continue;
      if (found.token->left_strip) begin = done + bpe::before_space(all.substr(done), begin - std::min(begin, done));
      if (found.token->right_strip) {
        if (space_end < end) space_end = bpe::behind_space(all, end);  // white space is looked at once
        end = space_end;
      }
      if (begin >= end) continue;  // an earlier token has taken it
      if (done < begin) text(all.substr(done, begin - done));
      token(found.token->id);
      done = end;
    }
    if (done < all.size()) text(all.substr(done));
  }
  // The text behind the last token.
  std::string_view last_text(std::string_view all) const {
    std::string_view last;
    cut(
        all, [&](std::string_view part) { last = part; }, [&](std::int32_t) { last = {}; });
    return last;
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

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // key: (node, byte)
  std::array<bool, 256> begins_{};
  Special special_;
  int first_byte_ = -1;  // the first byte, if all tokens begin with the same one
};

// Searches first for the tokens that are not `normalized`. The text between them is normalized, and the `normalized`
// tokens, whose texts are normalized too, are searched in it.
class AddedTokens {
 public:
  // Borrows the normalizers. InputError for a token of which nothing stays; `where` names the file.
  AddedTokens(const std::vector<AddedToken>& tokens, const Normalizers& normalizers, TokenTree::Special special,
              const std::string& where);
  // Calls text(part) and token(id) in the order of the text. Texts of parts are not empty. `all` goes on behind
  // `before`, unless that is empty.
  struct Part {
    std::string_view text;
    bool at_start = false;         // it begins with the first character of the document
    std::string_view before = {};  // what it goes on behind, as normalized
  };
  template <class PartOfText, class Token> void cut(std::string_view all, std::string_view before, bool document_begins,
                                                    const PartOfText& text, const Token& token) const {
    const auto behind = first_.last_text(before);
    first_.cut(
        all,
        [&](std::string_view raw) {
          const bool first = raw.data() == all.data();
          const Continued continued(normalizers_, first ? behind : std::string_view(), raw,
                                    first && document_begins && before.empty());
          const auto normal = continued.normal();
          const auto normal_before = second_.last_text(continued.before());
          if (normal.empty()) return;
          second_.cut(
              normal,
              [&](std::string_view p) {
                const bool begins = p.data() == normal.data();
                text(Part{p, continued.at_start() && begins, begins ? normal_before : std::string_view()});
              },
              token);
        },
        token);
  }

 private:
  // A text as normalized, and the text that it goes on behind.
  class Continued {
   public:
    Continued(const Normalizers& normalizers, std::string_view before, std::string_view text, bool at_start);
    std::string_view normal() const { return normal_; }
    std::string_view before() const { return before_.get(); }
    bool at_start() const { return text_.at_start(); }

   private:
    std::string joint_;
    Text before_, text_, whole_;
    std::string_view normal_;
  };
  static std::vector<AddedToken> normalized(std::vector<AddedToken> tokens, const Normalizers& normalizers,
                                            const std::string& where);

  const Normalizers& normalizers_;
  TokenTree first_, second_;
};

}  // namespace trainyard::data::json_tokenizer

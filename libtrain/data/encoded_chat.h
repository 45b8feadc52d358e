// EncodedChat: a chat template in the tokens of a tokenizer.
#pragma once

#include "libtrain/data/chat_template.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

// Divides a prefix or a suffix of the template: calls token(name) for the longest token at each place, and part(text)
// for the text between them, in order.
void for_each_part(const ChatTemplate& chat, std::string_view text, const std::function<void(std::string_view)>& part,
                   const std::function<void(const std::string&)>& token);

// The tokens of a conversation are those of its whole text, where the template's tokens are, except that no token
// crosses the beginning or the end of an answer. So the tokens before the first answer are those of the text before it,
// which `generate` gets as a prompt. Before a later answer they are so if no token of that text crosses a border of an
// earlier one, as none does where tokens of the template are. Any thread may call encode.
class EncodedChat {
 public:
  // InputError if the tokenizer lacks a token of the template, or has spaces behind words. Both outlive it.
  EncodedChat(const ChatTemplate& chat, const Tokenizer& tokenizer);
  // Appends the tokens of a document, with the tokens around it. Answers are ranges of these, in order and apart from
  // one another. The end of the document belongs to a last answer.
  void encode(std::span<const ChatMessage> messages, std::vector<std::int32_t>& tokens,
              std::vector<AnswerSpan>& answers) const;

 private:
  struct Piece {
    std::string_view text;  // of the template
    std::int32_t token;     // -1: a text
  };
  struct Around {
    std::vector<Piece> prefix, suffix;
  };
  std::vector<Piece> pieces_of(std::string_view text) const;

  const ChatTemplate& chat_;
  const Tokenizer& tokenizer_;
  std::vector<Around> around_;  // of each role
};

}  // namespace trainyard::data

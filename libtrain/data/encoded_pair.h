// EncodedPair: a pair of texts as the tokens of one document.
#pragma once

#include "libtrain/data/chat_template.h"
#include "libtrain/data/text_pair.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::data {

// A document is the source and an end of document, then the target and an end of document. It begins with the token
// that documents begin with, if there is one. The target begins with the token of its language, if languages are known.
// Each side has the tokens of its text alone. Any thread may call encode.
class EncodedPair {
 public:
  // InputError if the tokenizer lacks the token of a language that all lines of an input have. Both outlive it.
  EncodedPair(const PairOptions& options, const Tokenizer& tokenizer);
  // Replaces `tokens`; `target` is the range of the target with its end. Returns why the pair is refused, or "".
  std::string encode(const TextPair& pair, std::vector<std::int32_t>& tokens, AnswerSpan& target) const;

 private:
  const PairOptions& options_;
  const Tokenizer& tokenizer_;
};

}  // namespace trainyard::data

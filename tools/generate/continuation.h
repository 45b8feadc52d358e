// Continuation: a text that is extended token by token.
#pragma once

#include "tools/generate/language_model.h"
#include "tools/generate/sampler.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace trainyard::generate {

enum class StopAt { end_of_document, length };  // length: an end of document is never drawn
enum class Stopped { length, end_of_document, stop_text, reader };
enum class Go { on, stop_text, stop };

struct ContinuationSettings {
  std::int64_t tokens = 100;  // at most so many new tokens
  StopAt stop_at = StopAt::end_of_document;
  std::vector<std::int32_t> ends;              // tokens that end a document, of the tokenizer's vocabulary
  std::int64_t vocabulary = 0;                 // of the tokenizer; only its tokens are drawn
  std::vector<std::int32_t> stop_tokens = {};  // end the text as a stop text does, and are not appended
};

using Show = std::function<Go(std::int32_t, std::span<const float>)>;

// A text and its draws. The caller computes logits, because it may do so for several texts at once.
class Continuation {
 public:
  // `tokens`: the text so far, which holds at least one token.
  Continuation(const SamplerSettings& sampler, const ContinuationSettings& settings, std::vector<std::int32_t> tokens)
      : sampler_(sampler), settings_(settings), tokens_(std::move(tokens)) {}

  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  // What the model must read anew for the next token, in one pass: all tokens at the beginning, and the newest half of
  // `room` where the model is full. Empty: the last token alone is new.
  std::span<const std::int32_t> to_read(std::int64_t room, bool full) const;
  // Draws the next token from its logits, appends it, and shows it with all logits of the model, also of rows without a
  // token. Returns why the text ends here, if it does. If `show` returns Go::stop, the text ends with Stopped::reader,
  // and if Go::stop_text, with Stopped::stop_text. A token that ends the text is neither appended nor shown.
  // CheckError when a logit is not finite.
  std::optional<Stopped> take(std::span<const float> logits, const Show& show);

 private:
  Sampler sampler_;
  ContinuationSettings settings_;
  std::vector<std::int32_t> tokens_;
  std::int64_t made_ = 0;
  std::vector<float> allowed_;
};

// Appends new tokens to `tokens`, which must hold at least one and at most as many as the model has room for. The first
// pass reads all tokens, each later pass reads one. When the model is full, it forgets all but the newest half and
// reads those again.
Stopped continue_text(LanguageModel& model, const SamplerSettings& sampler, const ContinuationSettings& settings,
                      std::vector<std::int32_t>& tokens, const Show& show);

}  // namespace trainyard::generate

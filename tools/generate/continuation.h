// Continuation: the loop that extends a text token by token.
#pragma once

#include "tools/generate/language_model.h"
#include "tools/generate/sampler.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace trainyard::generate {

enum class StopAt { end_of_document, length };  // length: an end of document is never drawn
enum class Stopped { length, end_of_document, reader };
enum class Go { on, stop };

struct ContinuationSettings {
  std::int64_t tokens = 100;  // at most so many new tokens
  StopAt stop_at = StopAt::end_of_document;
  std::int32_t end_of_document = 0;
  std::int64_t vocabulary = 0;  // of the tokenizer; only its tokens are drawn
};

// Appends new tokens to `tokens`, which must hold at least one and at most as many as the model has room for. Each new
// token is shown with the logits it was drawn from (the tokenizer's part, before any exclusion). If `show` returns
// Go::stop, the text ends with Stopped::reader. An end of document that ends the text is neither appended nor shown.
// The first pass reads all tokens, each later pass reads one. When the model is full, it forgets all but the newest
// half and reads those again. CheckError when a logit is not finite.
Stopped continue_text(LanguageModel& model, Sampler& sampler, const ContinuationSettings& settings,
                      std::vector<std::int32_t>& tokens,
                      const std::function<Go(std::int32_t, std::span<const float>)>& show);

}  // namespace trainyard::generate

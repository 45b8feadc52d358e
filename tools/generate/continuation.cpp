// Each token takes one forward pass and one draw.
#include "tools/generate/continuation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard::generate {

namespace {

std::span<const float> next_logits(LanguageModel& model, std::span<const std::int32_t> tokens, std::int64_t made) {
  if (made == 0) return model.begin(tokens);
  if (!model.full()) return model.append(tokens.back());
  return model.begin(tokens.last(static_cast<std::size_t>(std::max<std::int64_t>(1, model.room() / 2))));
}

}  // namespace

Stopped continue_text(LanguageModel& model, Sampler& sampler, const ContinuationSettings& settings,
                      std::vector<std::int32_t>& tokens,
                      const std::function<Go(std::int32_t, std::span<const float>)>& show) {
  std::vector<float> allowed;
  for (std::int64_t made = 0; made < settings.tokens; ++made) {
    const auto logits = next_logits(model, tokens, made).first(static_cast<std::size_t>(settings.vocabulary));
    if (std::any_of(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); }))
      throw base::CheckError(fmt::format("the logits of new token {} are not finite", made),
                             "inspect the checkpoint: its norms show which tensor went wrong");
    auto choice = logits;
    if (settings.stop_at == StopAt::length) {
      allowed.assign(logits.begin(), logits.end());
      allowed[static_cast<std::size_t>(settings.end_of_document)] = -std::numeric_limits<float>::infinity();
      choice = allowed;
    }
    const auto next = sampler.next(choice, static_cast<std::uint64_t>(made));
    if (next == settings.end_of_document) return Stopped::end_of_document;
    tokens.push_back(next);
    if (show(next, logits) == Go::stop) return Stopped::reader;
  }
  return Stopped::length;
}

}  // namespace trainyard::generate

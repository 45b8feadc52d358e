// Each token takes one forward pass and one draw.
#include "tools/generate/continuation.h"

#include "libtrain/base/index.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard::generate {

std::span<const std::int32_t> Continuation::to_read(std::int64_t room, bool full) const {
  const std::span<const std::int32_t> all = tokens_;
  if (made_ == 0) return all;
  return full ? all.last(base::size(std::max<std::int64_t>(1, room / 2))) : all.first(0);
}

std::optional<Stopped> Continuation::take(std::span<const float> all, const Show& show) {
  if (std::any_of(all.begin(), all.end(), [](float x) { return !std::isfinite(x); }))
    throw base::CheckError(fmt::format("the logits of new token {} are not finite", made_),
                           "inspect the checkpoint: its norms show which tensor went wrong");
  auto choice = all.first(base::size(settings_.vocabulary));
  if (settings_.stop_at == StopAt::length) {
    allowed_.assign(choice.begin(), choice.end());
    for (const auto end : settings_.ends) base::at(allowed_, end) = -std::numeric_limits<float>::infinity();
    choice = allowed_;
  }
  const auto next = sampler_.next(choice, static_cast<std::uint64_t>(made_));
  if (std::ranges::find(settings_.stop_tokens, next) != settings_.stop_tokens.end()) return Stopped::stop_text;
  if (std::ranges::find(settings_.ends, next) != settings_.ends.end()) return Stopped::end_of_document;
  tokens_.push_back(next);
  ++made_;
  const auto go = show(next, all);
  if (go == Go::stop_text) return Stopped::stop_text;
  if (go == Go::stop) return Stopped::reader;
  return made_ == settings_.tokens ? std::optional(Stopped::length) : std::nullopt;
}

Stopped continue_text(LanguageModel& model, const SamplerSettings& sampler, const ContinuationSettings& settings,
                      std::vector<std::int32_t>& tokens, const Show& show) {
  Continuation text(sampler, settings, tokens);
  while (true) {
    const auto read = text.to_read(model.room(), model.full());
    const auto logits = read.empty() ? model.append(text.tokens().back()) : model.begin(read);
    if (const auto stopped = text.take(logits, show)) {
      tokens = text.tokens();
      return *stopped;
    }
  }
}

}  // namespace trainyard::generate

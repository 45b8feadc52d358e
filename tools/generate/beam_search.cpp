// Extends texts by their likeliest tokens.
#include "tools/generate/beam_search.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <cmath>

namespace trainyard::generate {

BeamSearch::BeamSearch(const BeamSettings& settings) : settings_(settings), running_(1) {}

double BeamSearch::worth(double sum, std::int64_t tokens) const {
  return sum / std::pow(static_cast<double>(tokens), settings_.length_penalty);
}

// The logarithm of the softmax over all logits, also of rows without a token.
std::vector<BeamSearch::Extension> BeamSearch::likeliest(std::span<const std::span<const float>> logits) const {
  const auto better = [](const Extension& a, const Extension& b) {
    if (a.sum != b.sum) return a.sum > b.sum;
    return a.text != b.text ? a.text < b.text : a.token < b.token;
  };
  const auto most = base::size(2 * settings_.beams);
  std::vector<Extension> best;
  for (std::int64_t text = 0; text < std::ssize(logits); ++text) {
    const auto of = base::at(logits, text);
    double top = of[0], sum = 0;
    for (const float x : of) {
      if (!std::isfinite(x))
        throw base::CheckError(fmt::format("the logits of new token {} are not finite", turns_),
                               "inspect the checkpoint: its norms show which tensor went wrong");
      top = std::max<double>(top, x);
    }
    for (const float x : of) sum += std::exp(static_cast<double>(x) - top);
    const double normalizer = top + std::log(sum);
    for (std::int32_t token = 0; token < settings_.vocabulary; ++token) {
      const double log_probability = static_cast<double>(base::at(of, token)) - normalizer;
      const Extension extension{base::at(running_, text).sum + log_probability, text, token, log_probability};
      if (best.size() == most && !better(extension, best.back())) continue;
      best.insert(std::upper_bound(best.begin(), best.end(), extension, better), extension);
      if (best.size() > most) best.pop_back();
    }
  }
  return best;
}

void BeamSearch::finish(const Extension& extension, bool ended) {
  auto text = base::at(running_, extension.text);
  text.sum = extension.sum, text.score = worth(extension.sum, turns_), text.ended = ended;
  if (!ended) text.tokens.push_back(extension.token), text.log_probabilities.push_back(extension.log_probability);
  finished_.insert(std::upper_bound(finished_.begin(), finished_.end(), text,
                                    [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; }),
                   std::move(text));
  if (std::ssize(finished_) > settings_.beams) finished_.pop_back();
}

bool BeamSearch::take(std::span<const std::span<const float>> logits) {
  TRAINYARD_ASSERT(logits.size() == running_.size(), "logits of {} texts for {}", logits.size(), running_.size());
  const auto extensions = likeliest(logits);
  ++turns_;
  const bool last = turns_ == settings_.tokens;
  const auto is_end = [&](std::int32_t token) {
    return std::ranges::find(settings_.ends, token) != settings_.ends.end() ||
           std::ranges::find(settings_.stop_tokens, token) != settings_.stop_tokens.end();
  };
  std::vector<Hypothesis> next;
  from_.clear();
  for (std::int64_t rank = 0; rank < std::ssize(extensions); ++rank) {
    const auto& extension = base::at(extensions, rank);
    const bool ends = is_end(extension.token);
    if (ends || last) {
      if (rank < settings_.beams) finish(extension, ends);
      continue;
    }
    if (std::ssize(next) == settings_.beams) continue;
    auto text = base::at(running_, extension.text);
    text.tokens.push_back(extension.token), text.log_probabilities.push_back(extension.log_probability);
    text.sum = extension.sum;
    from_.push_back(extension.text);
    next.push_back(std::move(text));
  }
  running_ = std::move(next);
  if (last || running_.empty()) return false;
  return std::ssize(finished_) < settings_.beams || worth(running_.front().sum, turns_) > finished_.back().score;
}

}  // namespace trainyard::generate

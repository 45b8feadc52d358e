// Applies temperature, top-k and top-p, and draws once for each token.
#include "tools/generate/sampler.h"

#include "libtrain/base/random.h"

#include <algorithm>
#include <cmath>

namespace trainyard::generate {

namespace {

bool before(const std::pair<float, std::int32_t>& a, const std::pair<float, std::int32_t>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

}  // namespace

double Sampler::weight(std::size_t i) const {
  return std::exp((static_cast<double>(ranked_[i].first) - top_) / settings_.temperature);
}

void Sampler::keep_nucleus() {
  double sum = 0;
  for (std::size_t i = 0; i < ranked_.size(); ++i) sum += weight(i);
  // Candidates below (1 - p) / n have less than 1 - p together. So the nucleus lies in the other candidates, which are
  // cheap to sort.
  const double least = (1 - settings_.top_p) / static_cast<double>(ranked_.size()) * sum;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ranked_.size(); ++i)
    if (weight(i) >= least) ranked_[kept++] = ranked_[i];
  ranked_.resize(kept);
  std::sort(ranked_.begin(), ranked_.end(), before);
  double reached = 0;
  for (std::size_t i = 0; i < ranked_.size(); ++i) {
    reached += weight(i);
    if (reached >= settings_.top_p * sum) return ranked_.resize(i + 1);
  }
}

std::int32_t Sampler::next(std::span<const float> logits, std::uint64_t index) {
  ranked_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) ranked_.emplace_back(logits[i], static_cast<std::int32_t>(i));
  const auto best = *std::min_element(ranked_.begin(), ranked_.end(), before);
  if (settings_.temperature == 0) return best.second;
  top_ = best.first;
  if (settings_.top_k > 0 && static_cast<std::size_t>(settings_.top_k) < ranked_.size()) {
    std::partial_sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(settings_.top_k), ranked_.end(),
                      before);
    ranked_.resize(static_cast<std::size_t>(settings_.top_k));
  }
  if (settings_.top_p < 1) keep_nucleus();
  double sum = 0;
  for (std::size_t i = 0; i < ranked_.size(); ++i) sum += weight(i);
  const auto words = base::random_words(settings_.seed, base::site_hash("generate", "token"), index);
  double left = base::uniform53(words[0], words[1]) * sum;
  auto chosen = best.second;  // the last possible token, if rounding leaves a remainder
  for (std::size_t i = 0; i < ranked_.size(); ++i) {
    const double w = weight(i);
    if (w > 0) chosen = ranked_[i].second;
    left -= w;
    if (left < 0) break;
  }
  return chosen;
}

double log_probability(std::span<const float> logits, std::int32_t token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - top);
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) - top - std::log(sum);
}

}  // namespace trainyard::generate

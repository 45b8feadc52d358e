// Temperature, top-k, and one draw a token.
#include "tools/generate/sampler.h"

#include "libtrain/base/random.h"

#include <algorithm>
#include <cmath>

namespace trainyard::generate {

std::int32_t Sampler::next(std::span<const float> logits, std::uint64_t index) {
  ranked_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) ranked_.emplace_back(logits[i], static_cast<std::int32_t>(i));
  const auto before = [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; };
  if (settings_.temperature == 0) return std::min_element(ranked_.begin(), ranked_.end(), before)->second;
  auto kept = ranked_.size();
  if (settings_.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(settings_.top_k));
  if (kept < ranked_.size()) std::partial_sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(kept), ranked_.end(), before);
  const auto top = std::max_element(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(kept))->first;
  const auto weight = [&](std::size_t i) { return std::exp((static_cast<double>(ranked_[i].first) - top) / settings_.temperature); };
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) sum += weight(i);
  const auto words = base::random_words(settings_.seed, base::site_hash("generate", "token"), index);
  double left = base::uniform53(words[0], words[1]) * sum;
  for (std::size_t i = 0; i + 1 < kept; ++i) {
    left -= weight(i);
    if (left < 0) return ranked_[i].second;
  }
  return ranked_[kept - 1].second;
}

}  // namespace trainyard::generate

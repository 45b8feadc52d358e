// Sampler: draws the next token from logits, keyed by seed and position, so that the same seed gives the same text.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trainyard::generate {

struct SamplerSettings {
  double temperature = 1;  // 0: always the likeliest token (of equals, the lowest id)
  std::int64_t top_k = 0;  // 0: all tokens
  std::uint64_t seed = 0;
  // Nucleus (Holtzman et al. 2020): of the top_k, the fewest likeliest tokens whose probabilities reach this sum; 1:
  // all.
  double top_p = 1;
};

class Sampler {
 public:
  explicit Sampler(const SamplerSettings& settings) : settings_(settings) {}
  // Draws the token at `index` of the generated text. Probabilities are computed in double. The draw is
  // Philox("generate", "token") with counter = index. A logit of -infinity is never drawn; at least one must be finite.
  std::int32_t next(std::span<const float> logits, std::uint64_t index);

 private:
  void keep_nucleus();
  double weight(std::size_t i) const;
  SamplerSettings settings_;
  std::vector<std::pair<float, std::int32_t>> ranked_;  // candidates; the memory is reused
  float top_ = 0;                                       // largest logit
};

// The logarithm of the probability that the softmax of `logits` gives `token`; summed in double, in ascending order of
// ids.
double log_probability(std::span<const float> logits, std::int32_t token);

}  // namespace trainyard::generate

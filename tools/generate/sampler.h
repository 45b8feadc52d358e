// Sampler: the next token from logits, keyed by seed and position, so that the same seed gives the same text.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trainyard::generate {

struct SamplerSettings {
  double temperature = 1;  // 0: always the likeliest (the lowest id among equals)
  std::int64_t top_k = 0;  // 0: all
  std::uint64_t seed = 0;
  double top_p =
      1;  // nucleus (Holtzman et al. 2020): of those, the fewest likeliest whose probabilities reach this sum; 1: all
};

class Sampler {
 public:
  explicit Sampler(const SamplerSettings& settings) : settings_(settings) {}
  // The token at `index` of the generated text. Probabilities in double; the draw is Philox("generate", "token"),
  // counter = index. A logit of -infinity is never drawn; at least one must be finite.
  std::int32_t next(std::span<const float> logits, std::uint64_t index);

 private:
  void keep_nucleus();
  double weight(std::size_t i) const;
  SamplerSettings settings_;
  std::vector<std::pair<float, std::int32_t>> ranked_;  // reused: candidates
  float top_ = 0;                                       // the largest logit of them
};

// The logarithm of the probability that the softmax of `logits` gives `token`; in double, in ascending order.
double log_probability(std::span<const float> logits, std::int32_t token);

}  // namespace trainyard::generate

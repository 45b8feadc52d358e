// Sampler: the next token from logits, keyed by seed and position, so that the same seed gives the same text.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trainyard::generate {

struct SamplerSettings {
  double temperature = 1;    // 0: always the likeliest (the lowest id among equals)
  std::int64_t top_k = 0;    // 0: all
  std::uint64_t seed = 0;
};

class Sampler {
 public:
  explicit Sampler(const SamplerSettings& settings) : settings_(settings) {}
  // The token at `index` of the generated text. Probabilities in double; the draw is Philox("generate", "token"), counter = index.
  std::int32_t next(std::span<const float> logits, std::uint64_t index);

 private:
  SamplerSettings settings_;
  std::vector<std::pair<float, std::int32_t>> ranked_;   // reused
};

}  // namespace trainyard::generate

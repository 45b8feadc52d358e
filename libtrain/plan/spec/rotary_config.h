// RotaryConfig: how the angles of rotary positions are scaled, and which part of a head rotates.
#pragma once

#include <cstdint>

namespace trainyard::plan {

// With b the model's rotary_base and d the rotated width, pair i has the angle position * b^(-2i / d) before scaling.
// linear: divided by factor (Chen et al. 2023, "Extending context window of large language models via positional
// interpolation"). llama3: divided where its wavelength is above original / low, kept where it is below original /
// high, and interpolated between (Grattafiori et al. 2024, "The Llama 3 herd of models"). yarn: a ramp between both by
// the number of rotations within `original`, and cosines and sines times attention_factor (Peng et al. 2023, "YaRN").
enum class RotaryScaling { none, linear, llama3, yarn };

struct RotaryConfig {
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1;                     // above 1: the context is so many times longer
  double low = 1, high = 4;              // llama3: rotations within `original` at the ends of the interpolation
  std::int64_t original = 0;             // llama3, yarn: the context before scaling, in tokens
  double beta_fast = 32, beta_slow = 1;  // yarn: rotations within `original` at the ends of the ramp
  double attention_factor = 0;           // yarn: factor of cosines and sines; 0: 0.1 ln(factor) + 1
  double fraction = 1;                   // the first part of each head that rotates; the rest stays
  double local_base = 0;  // base, without scaling, in layers with a window of tokens; 0: as in other layers
  bool operator==(const RotaryConfig&) const = default;
};

// The channels of a head that rotate, an even number.
constexpr std::int64_t rotated_width(const RotaryConfig& c, std::int64_t head_dim) {
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * c.fraction) / 2 * 2;
}

}  // namespace trainyard::plan

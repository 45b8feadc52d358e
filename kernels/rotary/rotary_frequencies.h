// The frequencies of rotary positions, for CPU and GPU kernels.
#pragma once

#include "libtrain/base/anywhere.h"
#include "libtrain/plan/spec/rotary_config.h"

#include <cmath>
#include <cstdint>

namespace trainyard::kernels {

// Frequencies b^(-2i / width) of the pairs i, and how they are scaled. `begin` and `end` are where the scaling goes
// from one form to the other: rotations within `original` tokens for llama3, numbers of pairs for YaRN.
struct RotaryFrequencies {
  std::int64_t width = 2;  // rotated channels of a head, its first ones
  double base = 10000;
  plan::RotaryScaling scaling = plan::RotaryScaling::none;
  double factor = 1, begin = 0, end = 1;
  double original = 0;   // llama3: tokens
  double amplitude = 1;  // of cosines and sines
};

namespace {  // each compiled variant has its own copy

// The share of a pair's frequency that is kept as it is. The rest is divided by `factor`.
TRAINYARD_ANYWHERE inline double kept_share(const RotaryFrequencies& f, std::int64_t pair, double frequency) {
  if (f.scaling == plan::RotaryScaling::none) return 1;
  if (f.scaling == plan::RotaryScaling::linear) return 0;
  const bool llama = f.scaling == plan::RotaryScaling::llama3;
  const double at = llama ? f.original * frequency / 6.283185307179586 : static_cast<double>(pair);
  const double ramp = (at - f.begin) / (f.end - f.begin), within = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
  return llama ? within : 1 - within;
}

TRAINYARD_ANYWHERE inline double frequency_of(const RotaryFrequencies& f, std::int64_t pair) {
  const double frequency = pow(f.base, -2.0 * static_cast<double>(pair) / static_cast<double>(f.width));
  const double kept = kept_share(f, pair, frequency);
  return frequency * ((1 - kept) / f.factor + kept);
}

}  // namespace
}  // namespace trainyard::kernels

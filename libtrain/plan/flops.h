// Model FLOPs of one optimizer step, by formula.
#pragma once

#include "libtrain/plan/inventory.h"

#include <cstdint>

namespace trainyard::plan {

// Narayanan et al. (2021), "Efficient large-scale language model training on GPU clusters", equation 3, for any
// feed-forward width and number of key-value heads: 6 for each weight of a matrix product and token, 12 s h for each
// layer's attention and token. Attention is counted in full (causal masking would halve it). Recompute::layers adds a
// third to the layers, not to the head. For GPT with ffn = 4h this is 72 B s L h^2 (1 + s/(6h) + V/(12 L h)). V is the
// logical vocabulary.
double step_flops(const ModelConfig& model, std::int64_t sequences, std::int64_t sequence,
                  Recompute recompute = Recompute::none);

}  // namespace trainyard::plan

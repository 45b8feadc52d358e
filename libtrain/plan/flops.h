// FLOPs of one optimizer step, by formula: those of the model, or with those that recomputation adds.
#pragma once

#include "libtrain/plan/inventory.h"

#include <cstdint>

namespace trainyard::plan {

// Narayanan et al. (2021), "Efficient large-scale language model training on GPU clusters", equation 3, for any
// feed-forward width and number of key-value heads: 6 for each weight of a matrix product and token, 12 s h for each
// layer's attention and token. Attention is counted in full (causal masking would halve it). For GPT with ffn = 4h
// this is 72 B s L h^2 (1 + s/(6h) + V/(12 L h)). V is the logical vocabulary. Recompute::selective adds nothing, since
// it makes no product again. Recompute::layers adds what the device computes again: forward of the layers, not of the
// head, up to what backward reads, so without the last product: 16 B s L h^2 (1 + s/(4h)) for GPT, where the reference,
// which runs all of it again, has 24 B s L h^2 (1 + s/(6h)).
double step_flops(const ModelConfig& model, std::int64_t sequences, std::int64_t sequence,
                  Recompute recompute = Recompute::none);

}  // namespace trainyard::plan

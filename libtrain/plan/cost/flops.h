// FLOPs of one optimizer step, by formula: of the model or a part of it, or including what recomputation adds.
#pragma once

#include "libtrain/plan/blocks/inventory.h"

#include <cstdint>

namespace trainyard::plan {

// Narayanan et al. (2021), "Efficient large-scale language model training on GPU clusters", equation 3, for any
// feed-forward width and number of key-value heads. It counts 6 for each weight of a matrix product and token, and 12 s
// h for each layer's attention and token. Attention is counted in full (causal masking would halve it). For GPT with
// ffn = 4h this is 72 B s L h^2 (1 + s/(6h) + V/(12 L h)). V is the logical vocabulary. Recompute::selective adds
// nothing, since it repeats no matrix product. Recompute::layers adds the second forward of the layers, not of the
// head. That forward ends with what backward reads, so it omits the last product. For GPT it is 16 B s L h^2 (1 +
// s/(4h)); the reference repeats the whole forward, 24 B s L h^2 (1 + s/(6h)).
double step_flops(const ModelPart& part, std::int64_t sequences, const Lengths& lengths,
                  const Recomputation& recompute = {});

}  // namespace trainyard::plan

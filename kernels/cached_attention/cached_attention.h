// Attention of one new token against the cached keys and values of the earlier tokens and its own: the step of
// generation.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// Query head h uses key-value head h / (heads / kv_heads) and sees every key, so a caller with a window gives its last
// rows alone. Up to rounding, the result is what
// kernels::attention_forward gives for the last query of t tokens without a mask. Rounding differs because this softmax
// is not tiled. The bits do not depend on the number of threads. Scratch: plan::cached_attention_scratch_bytes(t,
// heads, T).
struct CachedAttention {
  // All views have dtype T and may have pitches.
  base::ConstView q;     // [1, heads*d]
  base::ConstView k, v;  // [t, kv_heads*d]; row t-1 belongs to the new token itself
  std::int64_t heads, kv_heads;
  double scale;        // of scores
  base::View out;      // [1, heads*d]
  double softcap = 0;  // as in AttentionShape
  // [heads, t] in the dtype of statistics, or absent: added to the scores behind the cap.
  base::ConstView bias = {};
};
void cached_attention(tensor::Exec& exec, const CachedAttention& attention);

}  // namespace trainyard::kernels

// Attention of one new token of a text against the keys and values kept of the tokens before it and its own: the step
// of generation.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// q, out [1, heads*d]; k, v [t, kv_heads*d], row t-1 that of the token itself; all in T, pitches honoured. Query head h
// uses key-value head h / (heads / kv_heads) and sees every key. What kernels::attention_forward gives for the last
// query of t tokens without a mask, up to rounding: here the softmax is not tiled. Bits do not depend on the number of
// threads. Scratch: plan::cached_attention_scratch_bytes(t, heads, T).
void cached_attention(tensor::Exec& exec, std::int64_t heads, std::int64_t kv_heads, double scale, base::View q,
                      base::View k, base::View v, base::View out);

}  // namespace trainyard::kernels

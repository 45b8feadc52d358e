// Attention without the T x T matrix of scores: tiles and an online softmax (Dao et al. 2022, "FlashAttention",
// algorithms 1, 4 and, for blocks, 5).
#pragma once

#include "kernels/attention/attention_shape.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// T is the working dtype, and G the dtype of statistics: f32; f64 for f64. Pitches are honoured. The bits do not depend
// on the number of threads. They do not depend on unseen keys either, as long as these are finite, because a tile
// multiplies unseen values by zero. Scratch: plan::attention_forward_scratch_bytes,
// plan::attention_backward_scratch_bytes (linear in T).
struct AttentionForward {
  AttentionShape shape;            // with T queries and K keys in each sequence
  base::ConstView q;               // [b*T, heads*d] in T
  base::ConstView k, v;            // [b*K, kv_heads*d] in T
  base::ConstView document_start;  // i32 [b, T]
  base::View out;                  // [b*T, heads*d] in T
  // [b*heads, T] in G: the logarithm of the sum of exponentials of scaled scores, or infinity for a query that sees
  // nothing.
  base::View lse;
};
void attention_forward(tensor::Exec& exec, const AttentionForward& attention);

// dq, dk and dv are overwritten. dk and dv of a key-value head add up its queries in f32, first in ascending head, then
// in ascending query tile, and are rounded once.
//
// d_bias, the gradient of shape.bias, is overwritten with sums over the gradients of scores, for each head and
// distance. A tile of 64 keys (on a GPU: of queries) adds up its pairs in ascending query. A sequence adds up its tiles
// in ascending order, and d_bias its sequences.
struct AttentionBackward {
  AttentionShape shape;
  base::ConstView q, k, v, document_start, out, lse;  // as in AttentionForward
  base::ConstView dout;                               // [b*T, heads*d] in T
  base::View dq;                                      // [b*T, heads*d] in T
  base::View dk, dv;                                  // [b*K, kv_heads*d] in T
  base::View d_bias = {};                             // [heads, T + K - 1] in G, or absent
};
void attention_backward(tensor::Exec& exec, const AttentionBackward& attention);

}  // namespace trainyard::kernels

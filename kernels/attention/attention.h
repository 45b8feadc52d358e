// Attention without the T x T matrix: tiles and an online softmax (Dao et al. 2022, "FlashAttention", algorithms 1, 4
// and, for blocks, 5).
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// A list of tiles (plan::TileList) in the memory of the device that works.
struct TileView {
  const std::int32_t* begin = nullptr;  // [heads * tiles + 1]; nullptr: every tile
  const std::int32_t* other = nullptr;
  const std::uint16_t* parts = nullptr;
  std::int64_t tiles = 0, heads = 1;
};

// What a query may see of its sequence: causal: no later key. With lists, whose tiles reach over the sequence or beyond
// it, only the parts of tiles that are listed; `by_keys` is `by_queries` by keys. first_head: of this rank, in lists of
// several heads.
struct Visibility {
  bool causal = true;
  TileView by_queries, by_keys;
  std::int64_t first_head = 0;
};

// Query head h uses key-value head h / (heads / kv_heads). Query i sees key j of its sequence when document_start[i] <=
// j < key_end[i], as far as `visibility` lets it. A query that sees nothing gets zeros, and gives zero gradients.
// Dropout of probabilities: pair (query i, key j) of head h in the sequence with global ordinal S is kept when
// word j % 4 of random_words(seed + S * 0x9E3779B97F4A7C15, site + h, i * 2^32 + j / 4) is at least floor(p * 2^32),
// then scaled by 1 / (1 - p).
struct AttentionShape {
  std::int64_t batch = 1, sequence = 1, heads = 1, kv_heads = 1, head_dim = 1;
  double scale = 1;  // of scores; above 0
  double dropout = 0;
  std::uint64_t seed = 0, site = 0;
  const std::uint64_t* samples = nullptr;
  // i32 [b, T], where the keys that each query may see end: of its document, of what is no padding. nullptr: the
  // sequence. As document_start it does not fall within a sequence.
  const std::int32_t* key_end = nullptr;
  Visibility visibility = {};
};

// q, out [b*T, heads*d], k, v [b*T, kv_heads*d] in T, pitches honoured; document_start i32 [b, T]; lse (f32; f64 for
// f64) [b*heads, T]: the logarithm of the sum of exponentials of scaled scores, infinity where there is none. Bits do
// not depend on the number of threads, nor on keys that a query does not see, as long as those are finite (a tile
// multiplies unseen values by zero). Scratch: plan::attention_forward_scratch_bytes,
// plan::attention_backward_scratch_bytes (linear in T).
void attention_forward(tensor::Exec& exec, const AttentionShape& shape, base::View q, base::View k, base::View v,
                       base::View document_start, base::View out, base::View lse);
// dq, dk, dv are overwritten. dk and dv of a key-value head add up its queries in ascending head, then ascending query
// tile, in f32, and are rounded once.
void attention_backward(tensor::Exec& exec, const AttentionShape& shape, base::View q, base::View k, base::View v,
                        base::View document_start, base::View out, base::View lse, base::View dout, base::View dq,
                        base::View dk, base::View dv);

}  // namespace trainyard::kernels

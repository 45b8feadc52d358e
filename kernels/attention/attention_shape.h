// The shape of attention, and what a query sees, as plain data for callers and compiled variants.
#pragma once

#include <cstdint>

namespace trainyard::kernels {

// A list of tiles (plan::TileList) in the memory of the device that computes.
struct TileView {
  const std::int32_t* begin = nullptr;  // [heads * tiles + 1]; nullptr: every tile
  const std::int32_t* other = nullptr;
  const std::uint16_t* parts = nullptr;
  std::int64_t tiles = 0, heads = 1;
};

// What a query may see of its sequence. causal: no later key. The lists, if given, cover at least the whole sequence.
// Then a query sees only the listed parts of tiles. `by_keys` is the list `by_queries`, sorted by keys. first_head:
// this rank's first head in lists of several heads. window: a query sees only keys less than so many places away from
// it; 0: any distance. So a causal query sees at most `window` keys, itself among them (Beltagy et al. 2020).
struct Visibility {
  bool causal = true;
  TileView by_queries, by_keys;
  std::int64_t first_head = 0;
  std::int64_t window = 0;
};

// Query head h uses key-value head h / (heads / kv_heads). Query i sees key j of its sequence if document_start[i] <= j
// < key_end[i] and `visibility` allows it. A query that sees nothing gets zeros, and its gradients are zeros. Dropout
// of probabilities: the pair (query i, key j) of head h in the sequence with global ordinal S has the random number
// word j % 4 of random_words(seed + S * 0x9E3779B97F4A7C15, site + h, i * 2^32 + j / 4).
// The pair is kept, and scaled by 1 / (1 - p), if this word is at least floor(p * 2^32).
//
// The keys may belong to another sequence, as where a decoder attends to an encoder's output. Then document_start and
// key_end, [b, T], name keys of that sequence. If there are not as many keys as queries, attention is not causal, and
// has neither window nor lists.
struct AttentionShape {
  std::int64_t batch = 1, sequence = 1, heads = 1, kv_heads = 1, head_dim = 1;
  double scale = 1;  // of scores; above 0
  double dropout = 0;
  std::uint64_t seed = 0, site = 0;
  const std::uint64_t* samples = nullptr;
  // i32 [b, T], the end of the keys that each query may see, because of its document or of padding. nullptr: the end of
  // the sequence. Like document_start, it never decreases within a sequence.
  const std::int32_t* key_end = nullptr;
  Visibility visibility = {};
  double softcap = 0;             // c: a scaled score s counts as c tanh(s / c); 0: as s (Gemma Team 2024, "Gemma 2")
  std::int64_t key_sequence = 0;  // keys of each sequence; 0: as many as queries
  // A bias of relative positions (Raffel et al. 2020): bias[h][j - i + sequence - 1] is added to the scaled score of
  // query i and key j, after the cap and before the mask. [heads, distance_count] in the dtype of statistics, dense;
  // nullptr: none.
  const void* bias = nullptr;
};

inline constexpr std::int64_t key_count(const AttentionShape& s) {
  return s.key_sequence > 0 ? s.key_sequence : s.sequence;
}
// A key's distance from a query goes from 1 - sequence to key_count - 1.
inline constexpr std::int64_t distance_count(const AttentionShape& s) {
  return s.sequence + key_count(s) > 0 ? s.sequence + key_count(s) - 1 : 0;
}

}  // namespace trainyard::kernels

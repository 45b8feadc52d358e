// Attention's backward pass on tensor cores, in tiles of 64 queries and 64 keys. A warp owns 16 rows. One kernel goes
// by keys for dk and dv, and another by queries for dq; both recompute the probabilities. So nothing is added
// atomically, and the bits do not depend on the order of blocks. In a tile of a list, a warp skips the tile if its rows
// have no part of it, and masks single parts.
#include "kernels/attention/attention_mma.h"
#include "kernels/attention/attention_mma_device.h"

namespace trainyard::kernels {
namespace {

// What a tile of queries brings along for each of its queries.
template <Sees S> struct PerQuery {
  float lse[tile], delta[tile];
  int start[tile];
};
template <> struct PerQuery<Sees::any> : PerQuery<Sees::earlier> { int end[tile]; };
template <int D, Sees S> struct KeysShared {
  b16 keys[tile_elements<D>], values[tile_elements<D>], queries[2][tile_elements<D>], douts[2][tile_elements<D>];
  PerQuery<S> per_query[2];
};

// Walks the tiles of queries that see keys [j0, j0 + tile), for each query head of a key-value head, and names the next
// tile, to be fetched meanwhile.
struct QueryStep {
  int m, i0;  // query head m of the group
};
template <Sees S> struct QueryTiles;
template <> struct QueryTiles<Sees::earlier> {
  int j0, each, steps, step_ = 0;
  __device__ __forceinline__ QueryTiles(const AttentionBackwardArgs& a, const Position& p, int j0) : j0(j0) {
    // Goes up to the first tile whose first query does not see these keys.
    int end = j0;
    while (end < a.sequence && begin_of(a, p.row0, end) < j0 + tile) end += tile;
    each = (end - j0) / tile, steps = static_cast<int>(a.heads / a.kv_heads) * each;
  }
  __device__ __forceinline__ bool there() const { return step_ < steps; }
  __device__ __forceinline__ bool more() const { return step_ + 1 < steps; }
  __device__ __forceinline__ QueryStep now() const { return {step_ / each, j0 + step_ % each * tile}; }
  __device__ __forceinline__ QueryStep next() const { return {(step_ + 1) / each, j0 + (step_ + 1) % each * tile}; }
  __device__ __forceinline__ unsigned column(int) const { return key_column; }
  __device__ __forceinline__ void step(const AttentionArgs&, const Position&) { ++step_; }
};
template <> struct QueryTiles<Sees::any> {
  int j0, m = -1;
  TileWalk walk{0, 0};
  QueryStep now_{}, next_{};
  unsigned parts_ = 0, next_parts_ = 0;
  __device__ __forceinline__ QueryTiles(const AttentionBackwardArgs& a, const Position& p, int j0) : j0(j0) {
    step(a, p);
    step(a, p);
  }
  __device__ __forceinline__ bool there() const { return now_.i0 >= 0; }
  __device__ __forceinline__ bool more() const { return next_.i0 >= 0; }
  __device__ __forceinline__ QueryStep now() const { return now_; }
  __device__ __forceinline__ QueryStep next() const { return next_; }
  __device__ __forceinline__ unsigned column(int c) const { return parts_ >> part_of(0, c) & key_column; }
  __device__ __forceinline__ void step(const AttentionArgs& a, const Position& p) {
    now_ = next_, parts_ = next_parts_;
    const int group = static_cast<int>(a.heads / a.kv_heads);
    auto at = walk.take(a.visibility.by_keys);
    while (at.tile < 0 && m + 1 < group) {
      ++m;
      const auto range = queries_of(a, p.row0, j0, tile);
      walk = walk_of(a, a.visibility.by_keys, p.kv * group + m, j0 / tile, range.first, range.end);
      at = walk.take(a.visibility.by_keys);
    }
    next_ = {m, at.tile * tile}, next_parts_ = at.parts;
  }
};

// Whether all queries of a tile see all of a warp's 16 keys.
template <Sees S> __device__ __forceinline__ bool all_see(const PerQuery<S>& of, int i0, int j0, unsigned column) {
  // A last query past the sequence's end has a start that fails this test.
  if constexpr (S == Sees::earlier) return j0 + tile - 1 <= i0 && of.start[tile - 1] <= j0;
  else return column == key_column && of.end[0] >= j0 + tile && of.start[tile - 1] <= j0;
}
// Whether query i of the tile at i0 sees key j.
template <Sees S>
__device__ __forceinline__ bool sees_key(const PerQuery<S>& of, int i0, int i, int n, int j, unsigned column) {
  if constexpr (S == Sees::earlier) return j <= i0 + i && j >= of.start[i];
  else return j >= of.start[i] && j < of.end[i] && (column >> part_of(n / 2, 0) & 1u) != 0;
}

// The products of a warp's 16 keys with a tile of queries become probabilities. The products of its values with the
// output gradients become gradients of scores. Masked: some query does not see some key. Shaped: scores have a cap or a
// bias.
template <bool Masked, bool Drops, bool Shaped, Sees S>
__device__ __forceinline__ void weigh_keys(const AttentionArgs& a, const Position& p, const PerQuery<S>& of, int i0,
                                           int j0, unsigned column, const Powers& powers, float (&s)[tile / 8][4],
                                           float (&dp)[tile / 8][4]) {
#pragma unroll
  for (int n = 0; n < tile / 8; ++n) {
    const int i = 8 * n + 2 * p.t;
    const auto lse = vec_at<2>(of.lse + i), delta = vec_at<2>(of.delta + i);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const auto j = j0 + 16 * p.warp + p.g + e / 2 * 8;
      if (Masked && !sees_key<S>(of, i0, i + e % 2, n, j, column)) {
        s[n][e] = dp[n][e] = 0;
        continue;
      }
      const auto kept = kept_scales<Drops>(a, p, i0 + i + e % 2, j / 2 * 2);
      const float bias = Shaped ? bias_of<float>(a, p.h, i0 + i + e % 2, j) * log2_e : 0.0f;
      gradients<Drops, Shaped>(powers, lse.v[e % 2], bias, delta.v[e % 2], j % 2 == 0 ? kept.v[0] : kept.v[1], s[n][e],
                               dp[n][e]);
    }
  }
}

// Grid: tiles of keys, key-value heads, sequences. A warp owns 16 keys. Products are transposed, so that probabilities
// have keys as rows. With heads of 64, a warp keeps its keys and values in registers.
template <int D, Sees S, bool Drops> __global__ void __launch_bounds__(threads) keys_kernel(AttentionBackwardArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  auto& shared = *reinterpret_cast<KeysShared<D, S>*>(memory);
  const std::int64_t kv_head = blockIdx.y, group = a.heads / a.kv_heads;
  const int j0 = static_cast<int>(blockIdx.x) * tile;
  auto p = position_of(a, kv_head * group);
  QueryTiles<S> tiles(a, p, j0);
  const auto fetch = [&](const QueryStep& step, int slot) {
    const auto h = kv_head * group + step.m, head = p.b * a.heads + h;
    const int i0 = step.i0;
    fetch_tile<D>(a.sequence, a.q, p.row0, i0, h * D, shared.queries[slot]);
    fetch_tile<D>(a.sequence, a.dout, p.row0, i0, h * D, shared.douts[slot]);
    close_copies();
    auto& to = shared.per_query[slot];
    for (int i = static_cast<int>(threadIdx.x); i < tile; i += threads) {
      const bool there = i0 + i < a.sequence;
      to.lse[i] = there ? a.lse.row<float>(head)[i0 + i] * log2_e : 0.0f;
      to.delta[i] = there ? reinterpret_cast<const float*>(a.scratch)[head * a.sequence + i0 + i] : 0.0f;
      to.start[i] = there ? begin_of(a, p.row0, i0 + i) : 0x7fffffff;
      if constexpr (S == Sees::any) to.end[i] = there ? keys_of(a, p.row0, i0 + i).hi : 0;
    }
  };
  float dk[1][D / 8][4], dv[1][D / 8][4];
  clear(dk), clear(dv);
  if (S == Sees::earlier || tiles.there()) {
    fetch_tile<D>(a.keys, a.k, p.key_row0, j0, kv_head * D, shared.keys);
    fetch_tile<D>(a.keys, a.v, p.key_row0, j0, kv_head * D, shared.values);
    fetch(tiles.now(), 0);
  }
  const float scale = static_cast<float>(a.scale);
  const Powers powers(a);
  const bool shaped = powers.inner != 0 || a.bias != nullptr;
  constexpr bool keeps = D == 64;
  unsigned of_keys[keeps ? D / 16 : 1][4], of_values[keeps ? D / 16 : 1][4];
  bool first = true;
  int slot = 0;
  for (; tiles.there(); tiles.step(a, p), slot ^= 1) {
    await_copies();
    __syncthreads();
    if (tiles.more()) fetch(tiles.next(), slot ^ 1);
    const unsigned column = tiles.column(p.warp);
    if (column == 0) continue;
    const int i0 = tiles.now().i0;
    p.h = kv_head * group + tiles.now().m;
    const b16 *queries = shared.queries[slot], *douts = shared.douts[slot];
    const auto& of = shared.per_query[slot];
    if (keeps && first)
#pragma unroll
      for (int k = 0; k < D / 16; ++k) {
        take_rows<D>(shared.keys, 16 * p.warp, k, p, of_keys[keeps ? k : 0]);
        take_rows<D>(shared.values, 16 * p.warp, k, p, of_values[keeps ? k : 0]);
      }
    first = false;
    float s[1][tile / 8][4], dp[1][tile / 8][4];
    clear(s), clear(dp);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      unsigned x[1][4];
      if constexpr (!keeps) take_rows<D>(shared.keys, 16 * p.warp, k, p, x[0]);
#pragma unroll
      for (int r = 0; keeps && r < 4; ++r) x[0][r] = of_keys[k][r];
      times_rows<D, 1>(s, x, queries, k, p);
      if constexpr (!keeps) take_rows<D>(shared.values, 16 * p.warp, k, p, x[0]);
#pragma unroll
      for (int r = 0; keeps && r < 4; ++r) x[0][r] = of_values[k][r];
      times_rows<D, 1>(dp, x, douts, k, p);
    }
    if (shaped) weigh_keys<true, Drops, true, S>(a, p, of, i0, j0, column, powers, s[0], dp[0]);
    else if (all_see<S>(of, i0, j0, column))
      weigh_keys<false, Drops, false, S>(a, p, of, i0, j0, column, powers, s[0], dp[0]);
    else weigh_keys<true, Drops, false, S>(a, p, of, i0, j0, column, powers, s[0], dp[0]);
    times_columns<D, 1>(dv, s, douts, p);
    times_columns<D, 1>(dk, dp, queries, p);
  }
  put_rows<D>({a.dk, p.key_row0, a.keys}, j0 + 16 * p.warp, kv_head * D, dk[0], scale, scale, p);
  put_rows<D>({a.dv, p.key_row0, a.keys}, j0 + 16 * p.warp, kv_head * D, dv[0], 1.0f, 1.0f, p);
}

// The same for a warp's 16 queries and a tile of keys; only the gradients of scores are needed.
template <bool Masked, bool Drops, bool Shaped, Sees S>
__device__ __forceinline__ void weigh_queries(const AttentionArgs& a, const Position& p, const Rows<S, 1>& queries,
                                              int own, int j0, unsigned parts, const Powers& powers,
                                              const float (&lse)[2], const float (&delta)[2], float (&s)[tile / 8][4],
                                              float (&dp)[tile / 8][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int n = 0; n < tile / 8; ++n) {
      const auto j = j0 + 8 * n + 2 * p.t;
      const auto kept = kept_scales<Drops>(a, p, own + p.g + 8 * half, j);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float &sn = s[n][2 * half + e], &dn = dp[n][2 * half + e];
        if (Masked && !queries.sees(0, half, j + e, n, parts)) {
          dn = 0;
          continue;
        }
        const float bias = Shaped ? bias_of<float>(a, p.h, own + p.g + 8 * half, j + e) * log2_e : 0.0f;
        gradients<Drops, Shaped>(powers, lse[half], bias, delta[half], kept.v[e], sn, dn);
      }
    }
}

// Grid: tiles of queries, heads, sequences. A warp owns 16 queries. Shared memory: two pairs of tiles of keys and
// values.
template <int D, Sees S, bool Drops> __global__ void __launch_bounds__(threads)
    queries_kernel(AttentionBackwardArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  b16* pairs = reinterpret_cast<b16*>(memory);
  const auto p = position_of(a, blockIdx.y);
  const int i0 = first_row<S>(a, tile), own = i0 + 16 * p.warp;
  const auto head = p.b * a.heads + p.h;
  const auto fetch = [&](int j0, int slot) { fetch_pair<D>(a, p, j0, pairs + 2 * slot * tile_elements<D>); };
  KeyTiles<S> tiles(a, p, i0, i0 + tile - 1);
  if (S == Sees::earlier || tiles.there()) fetch(tiles.j0, 0);
  unsigned q[D / 16][4], dout[D / 16][4];
  fetch_rows<D>(a, a.q, own, p.h * D, p, q);
  fetch_rows<D>(a, a.dout, own, p.h * D, p, dout);
  float lse[2], delta[2], dq[1][D / 8][4];
  clear(dq);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto i = own + p.g + 8 * half;
    lse[half] = i < a.sequence ? a.lse.row<float>(head)[i] * log2_e : 0.0f;
    delta[half] = i < a.sequence ? reinterpret_cast<const float*>(a.scratch)[head * a.sequence + i] : 0.0f;
  }
  const Rows<S, 1> queries(a, p, own, i0 + tile - 1);
  const float scale = static_cast<float>(a.scale);
  const Powers powers(a);
  const bool shaped = powers.inner != 0 || a.bias != nullptr;
  int slot = 0;
  for (; tiles.there(); tiles.step(a), slot ^= 1) {
    await_copies();
    __syncthreads();
    if (tiles.more()) fetch(tiles.next(), slot ^ 1);
    const int j0 = tiles.j0;
    const unsigned parts = tiles.parts();
    if (queries.none(parts)) continue;
    const b16 *keys = pairs + 2 * slot * tile_elements<D>, *values = keys + tile_elements<D>;
    float s[1][tile / 8][4], dp[1][tile / 8][4];
    clear(s), clear(dp);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      unsigned x[1][4];
#pragma unroll
      for (int r = 0; r < 4; ++r) x[0][r] = q[k][r];
      times_rows<D, 1>(s, x, keys, k, p);
#pragma unroll
      for (int r = 0; r < 4; ++r) x[0][r] = dout[k][r];
      times_rows<D, 1>(dp, x, values, k, p);
    }
    if (shaped) weigh_queries<true, Drops, true>(a, p, queries, own, j0, parts, powers, lse, delta, s[0], dp[0]);
    else if (queries.all(j0, parts))
      weigh_queries<false, Drops, false>(a, p, queries, own, j0, parts, powers, lse, delta, s[0], dp[0]);
    else weigh_queries<true, Drops, false>(a, p, queries, own, j0, parts, powers, lse, delta, s[0], dp[0]);
    times_columns<D, 1>(dq, dp, keys, p);
  }
  put_rows<D>({a.dq, p.row0, a.sequence}, own, p.h * D, dq[0], scale, scale, p);
}

// delta[b * heads + h][i] = out . dout; D / 8 lanes share a row.
template <int D> __global__ void delta_kernel(AttentionBackwardArgs a) {
  constexpr int lanes = D / 8;
  float* delta = reinterpret_cast<float*>(a.scratch);
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * (threads / lanes) + threadIdx.x / lanes,
                     rows = a.batch * a.heads * a.sequence;
  const int c = static_cast<int>(threadIdx.x) % lanes * 8;
  const bool there = n < rows;
  const auto [head, i] = place_of(there ? n : 0, a.sequence);
  const auto [b, h] = place_of(head, a.heads);
  const auto x = vec_at<8>(a.out.row<b16>(b * a.sequence + i) + h * D + c),
             y = vec_at<8>(a.dout.row<b16>(b * a.sequence + i) + h * D + c);
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += widen(x.v[k]) * widen(y.v[k]);
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (there && c == 0) delta[n] = sum;
}

template <int D, Sees S> const char* backward(const AttentionBackwardArgs& a, void* stream) {
  const auto delta_rows = threads / (D / 8);
  TRAINYARD_LAUNCH(delta_kernel<D>, true,
                   static_cast<unsigned>((a.batch * a.heads * a.sequence + delta_rows - 1) / delta_rows), threads,
                   stream, a);
  static_assert(sizeof(KeysShared<D, S>) <= most_bytes<D>);
  return with_dropout(a, [&]<bool Drops>() {
    TRAINYARD_LAUNCH_SHARED((keys_kernel<D, S, Drops>), static_cast<int>(sizeof(KeysShared<D, S>)),
                            grid_of(a, a.keys, a.kv_heads, tile), threads, stream, a);
    TRAINYARD_LAUNCH_SHARED((queries_kernel<D, S, Drops>), two_pairs_bytes<D>, grid_of(a, a.sequence, a.heads, tile),
                            threads, stream, a);
    return a.d_bias.empty() ? launch_failure() : gpu::attention_bias_mma(a, stream);
  });
}
template <int D> const char* backward(const AttentionBackwardArgs& a, void* stream) {
  return sees_of(a) == Sees::earlier ? backward<D, Sees::earlier>(a, stream) : backward<D, Sees::any>(a, stream);
}

}  // namespace

const char* gpu::attention_backward_mma(const AttentionBackwardArgs& a, void* stream) {
  return a.head_dim == 64 ? backward<64>(a, stream) : backward<128>(a, stream);
}

}  // namespace trainyard::kernels

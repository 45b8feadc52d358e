// Attention's forward pass on tensor cores after Dao (2023), "FlashAttention-2", in tiles of 64 keys. A warp owns 16 or
// 32 queries. The next tile is copied to shared memory while the current one is computed. In a tile of a list, a warp
// skips the tile if its queries have no part of it, and masks single parts.
#include "kernels/attention/attention_mma.h"
#include "kernels/attention/attention_mma_device.h"

namespace trainyard::kernels {
namespace {

template <int D> constexpr int blocks_of_warp = D == 64 ? 2 : 1;  // of 16 queries
// Warps of a block of threads whose queries are one tile of a list.
template <int D> constexpr int list_warps = list_tile / (16 * blocks_of_warp<D>);

template <Sees S> __device__ __forceinline__ float divisor(float sum) {
  return S == Sees::any && sum == 0 ? 0.0f : 1.0f / sum;  // 0 for a query that sees nothing
}

// Products of a tile become weights 2^(scale (s - the greatest so far)), and the earlier sums shrink to the new
// greatest score. `top` and `s` are unscaled products; `scale` turns them into powers of 2. Masked: some query of the
// warp does not see some key.
template <bool Masked, bool Drops, int D, Sees S, int M>
__device__ __forceinline__ void weigh(const AttentionArgs& a, const Position& p, const Rows<S, M>& queries, int own,
                                      int j0, unsigned parts, float scale, float (&s)[M][tile / 8][4],
                                      float (&top)[M][2], float (&sum)[M][2], float (&out)[M][D / 8][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float best = top[m][half];
#pragma unroll
      for (int n = 0; n < tile / 8; ++n)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          if (Masked && !queries.sees(m, half, j0 + 8 * n + 2 * p.t + e % 2, n, parts)) s[m][n][e] = -INFINITY;
          best = fmaxf(best, s[m][n][e]);
        }
#pragma unroll
      for (int step = 1; step < 4; step *= 2) best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, step));
      const float base = best == -INFINITY ? 0.0f : best * scale;  // a row that has seen nothing yet
      const float shrink = exp2_of(top[m][half] * scale - base);
      float part = 0;
#pragma unroll
      for (int n = 0; n < tile / 8; ++n) {
        const auto kept = kept_scales<Drops>(a, p, own + 16 * m + p.g + 8 * half, j0 + 8 * n + 2 * p.t);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float w = exp2_of(s[m][n][2 * half + e] * scale - base);
          part += w;
          s[m][n][2 * half + e] = Drops ? w * kept.v[e] : w;
        }
      }
      sum[m][half] = sum[m][half] * shrink + part;  // sum over this lane's keys
      top[m][half] = best;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) out[m][n][2 * half] *= shrink, out[m][n][2 * half + 1] *= shrink;
    }
}

// Products become what the cap leaves of them, as a share of the cap.
template <int M> __device__ __forceinline__ void cap(float (&s)[M][tile / 8][4], float inner) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[m][n][e] = tanh_of(s[m][n][e] * inner);
}

// Products, or what the cap leaves of them, become powers of 2 with the bias of positions. `own`: the warp's first
// query.
template <int M> __device__ __forceinline__ void add_bias(const AttentionArgs& a, const Position& p, int own, int j0,
                                                          float power, float (&s)[M][tile / 8][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float bias =
            bias_of<float>(a, p.h, own + 16 * m + p.g + e / 2 * 8, j0 + 8 * n + 2 * p.t + e % 2) * log2_e;
        s[m][n][e] = s[m][n][e] * power + bias;
      }
}

// Grid: tiles of queries, heads, sequences. Shared memory: two pairs of tiles of keys and values.
template <int D, Sees S, int W, bool Drops> __global__ void __launch_bounds__(32 * W)
    forward_kernel(AttentionForwardArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  constexpr int M = blocks_of_warp<D>, rows = 16 * M * W;
  b16* pairs = reinterpret_cast<b16*>(memory);
  const auto p = position_of(a, blockIdx.y);
  const int i0 = first_row<S>(a, rows), own = i0 + 16 * M * p.warp;
  const int last = i0 + rows < a.sequence ? i0 + rows - 1 : static_cast<int>(a.sequence) - 1;
  const auto fetch = [&](int j0, int slot) { fetch_pair<D, W>(a, p, j0, pairs + 2 * slot * tile_elements<D>); };
  KeyTiles<S> tiles(a, p, i0, last);
  if (S == Sees::earlier || tiles.there()) fetch(tiles.j0, 0);
  unsigned q[M][D / 16][4];
  float out[M][D / 8][4], top[M][2], sum[M][2];
  clear(out);
#pragma unroll
  for (int m = 0; m < M; ++m) {
    fetch_rows<D>(a, a.q, own + 16 * m, p.h * D, p, q[m]);
#pragma unroll
    for (int half = 0; half < 2; ++half) top[m][half] = -INFINITY, sum[m][half] = 0;
  }
  const Rows<S, M> queries(a, p, own, last);
  const Powers powers(a);
  const float scale = a.bias == nullptr ? powers.power : 1.0f;
  int slot = 0;
  for (; tiles.there(); tiles.step(a), slot ^= 1) {
    await_copies();
    __syncthreads();
    if (tiles.more()) fetch(tiles.next(), slot ^ 1);
    const int j0 = tiles.j0;
    const unsigned parts = tiles.parts();
    if (queries.none(parts)) continue;
    const b16 *keys = pairs + 2 * slot * tile_elements<D>, *values = keys + tile_elements<D>;
    float s[M][tile / 8][4];
    clear(s);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      unsigned x[M][4];
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int r = 0; r < 4; ++r) x[m][r] = q[m][k][r];
      times_rows<D, M>(s, x, keys, k, p);
    }
    if (powers.inner != 0) cap(s, powers.inner);
    if (a.bias != nullptr) add_bias(a, p, own, j0, powers.power, s);
    if (queries.all(j0, parts)) weigh<false, Drops, D>(a, p, queries, own, j0, parts, scale, s, top, sum, out);
    else weigh<true, Drops, D>(a, p, queries, own, j0, parts, scale, s, top, sum, out);
    times_columns<D, M>(out, s, values, p);
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int step = 1; step < 4; step *= 2) sum[m][half] += __shfl_xor_sync(0xffffffffu, sum[m][half], step);
    put_rows<D>({a.out, p.row0, a.sequence}, own + 16 * m, p.h * D, out[m], divisor<S>(sum[m][0]),
                divisor<S>(sum[m][1]), p);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto i = own + 16 * m + p.g + 8 * half;
      if (p.t == 0 && i < a.sequence)
        a.lse.row<float>(p.b * a.heads + p.h)[i] =
            S == Sees::any && sum[m][half] == 0 ? INFINITY : (top[m][half] * scale + log2f(sum[m][half])) * ln_2;
    }
  }
}

template <int D, Sees S, int W> const char* launch(const AttentionForwardArgs& a, void* stream) {
  return with_dropout(a, [&]<bool Drops>() {
    TRAINYARD_LAUNCH_SHARED((forward_kernel<D, S, W, Drops>), two_pairs_bytes<D>,
                            grid_of(a, a.sequence, a.heads, 16 * blocks_of_warp<D> * W), 32 * W, stream, a);
    return launch_failure();
  });
}

template <int D> const char* forward(const AttentionForwardArgs& a, void* stream) {
  if (sees_of(a) == Sees::earlier) return launch<D, Sees::earlier, warps>(a, stream);
  return a.visibility.by_queries.begin == nullptr ? launch<D, Sees::any, warps>(a, stream)
                                                  : launch<D, Sees::any, list_warps<D>>(a, stream);
}

bool aligned(const ConstMat& m) {
  return m.empty() || (reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0 && m.pitch % 8 == 0);
}

// Whether dtype and head size fit the tensor cores, and all of these operands are aligned.
template <class... Mats> bool fits(const AttentionArgs& a, const Mats&... operands) {
  if (a.q.type != Type::bf16 || (a.head_dim != 64 && a.head_dim != 128)) return false;
  return (aligned(operands) && ...) && most_shared_bytes() >= (a.head_dim == 64 ? most_bytes<64> : most_bytes<128>);
}

}  // namespace

bool gpu::attention_mma_fits(const AttentionForwardArgs& a) { return fits(a, a.q, a.k, a.v, a.out); }
bool gpu::attention_mma_fits(const AttentionBackwardArgs& a) {
  return fits(a, a.q, a.k, a.v, a.out, a.dout, a.dq, a.dk, a.dv);
}

const char* gpu::attention_forward_mma(const AttentionForwardArgs& a, void* stream) {
  return a.head_dim == 64 ? forward<64>(a, stream) : forward<128>(a, stream);
}

}  // namespace trainyard::kernels

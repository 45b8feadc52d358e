// Attention on tensor cores after Dao (2023), "FlashAttention-2", in tiles of 64 queries and 64 keys, four warps of 16 rows each. Backward goes by keys for dk and dv, then by
// queries for dq, and recomputes the probabilities in both, so that nothing is added atomically and the bits do not depend on the order of blocks.
// document_start does not fall within a sequence, so a tile's first query sees farthest back.
#include "kernels/attention/attention_mma.h"
#include "kernels/gpu_mma.h"

namespace trainyard::kernels {
namespace {

constexpr int tile = 64, threads = 128, tile_pitch = tile + 8;   // 8 more: rows fall into different banks
template <int D> constexpr int row_pitch = D + 8;
constexpr float log2_e = 1.44269504f;

struct Place {
  std::int64_t b, h, kv, row0;
  int warp, g, t;      // g, t: as in gpu_mma.h
};
__device__ Place place_of(const AttentionArgs& a, std::int64_t h) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return {static_cast<std::int64_t>(blockIdx.z), h, h / (a.heads / a.kv_heads), static_cast<std::int64_t>(blockIdx.z) * a.sequence, static_cast<int>(threadIdx.x) / 32, lane / 4, lane % 4};
}

// Rows [first, first + tile) of one head; rows beyond the sequence are zero. to[row][channel].
template <int D> __device__ void load_rows(const AttentionArgs& a, const Mat& x, std::int64_t row0, std::int64_t first, std::int64_t column, b16* to) {
  for (int i = static_cast<int>(threadIdx.x); i < tile * D / 8; i += threads) {
    const int r = i / (D / 8), c = i % (D / 8) * 8;
    uint4 v{0, 0, 0, 0};
    if (first + r < a.sequence) v = *reinterpret_cast<const uint4*>(x.row<b16>(row0 + first + r) + column + c);
    *reinterpret_cast<uint4*>(to + r * row_pitch<D> + c) = v;
  }
}
// The same, transposed: to[channel][row].
template <int D> __device__ void load_columns(const AttentionArgs& a, const Mat& x, std::int64_t row0, std::int64_t first, std::int64_t column, b16* to) {
  for (int i = static_cast<int>(threadIdx.x); i < tile * D / 8; i += threads) {
    const int r = i % tile, c = i / tile * 8;
    uint4 v{0, 0, 0, 0};
    if (first + r < a.sequence) v = *reinterpret_cast<const uint4*>(x.row<b16>(row0 + first + r) + column + c);
    const unsigned pairs[4] = {v.x, v.y, v.z, v.w};
    for (int k = 0; k < 8; ++k) to[(c + k) * tile_pitch + r].bits = static_cast<std::uint16_t>(pairs[k / 2] >> 16 * (k % 2));
  }
}

// The a of rows [row, row + 16) and channels [16 k, 16 k + 16) from a tile of rows.
template <int D> __device__ void take_rows(const b16* tile_rows, int row, int k, const Place& p, unsigned (&a)[4]) {
  const b16* at = tile_rows + (row + p.g) * row_pitch<D> + 16 * k + 2 * p.t;
  a[0] = pair_at(at), a[1] = pair_at(at + 8 * row_pitch<D>), a[2] = pair_at(at + 8), a[3] = pair_at(at + 8 * row_pitch<D> + 8);
}
// The same from device memory, once for a whole loop; rows beyond the sequence are zero.
template <int D> __device__ void fetch_rows(const AttentionArgs& a, const Mat& x, std::int64_t first, std::int64_t column, const Place& p, unsigned (&out)[D / 16][4]) {
  for (int k = 0; k < D / 16; ++k)
    for (int part = 0; part < 4; ++part) {
      const auto row = first + p.g + (part % 2) * 8;
      out[k][part] = row < a.sequence ? pair_at(x.row<b16>(p.row0 + row) + column + 16 * k + 2 * p.t + part / 2 * 8) : 0u;
    }
}

// c[16, tile] = a rows . those of a tile of rows.
template <int D> __device__ void times_rows(float (&c)[tile / 8][4], const unsigned (&a)[4], const b16* tile_rows, int k, const Place& p) {
  for (int n = 0; n < tile / 8; ++n) {
    const b16* at = tile_rows + (8 * n + p.g) * row_pitch<D> + 16 * k + 2 * p.t;
    mma_bf16(c[n], a, pair_at(at), pair_at(at + 8));
  }
}
// c[16, D] += x[16, tile] . a tile that is given transposed; x holds results of an earlier product.
template <int D> __device__ void times_columns(float (&c)[D / 8][4], const float (&x)[tile / 8][4], const b16* tile_columns, const Place& p) {
  for (int k = 0; k < tile / 16; ++k) {
    const unsigned a[4] = {pack_bf16(x[2 * k][0], x[2 * k][1]), pack_bf16(x[2 * k][2], x[2 * k][3]), pack_bf16(x[2 * k + 1][0], x[2 * k + 1][1]), pack_bf16(x[2 * k + 1][2], x[2 * k + 1][3])};
    for (int n = 0; n < D / 8; ++n) {
      const b16* at = tile_columns + (8 * n + p.g) * tile_pitch + 16 * k + 2 * p.t;
      mma_bf16(c[n], a, pair_at(at), pair_at(at + 8));
    }
  }
}

__device__ bool sees(const AttentionArgs& a, std::int64_t row0, std::int64_t i, std::int64_t j) { return i < a.sequence && j <= i && j >= a.document_start[row0 + i]; }

__device__ float kept_scale(const AttentionArgs& a, const Place& p, std::int64_t i, std::int64_t j) {
  if (a.threshold == 0) return 1.0f;
  const auto words = philox_words(a.seed + a.samples[p.b] * 0x9E3779B97F4A7C15ull, a.site + static_cast<std::uint64_t>(p.h),
                                  (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>(j / 4));
  return words.w[j % 4] >= a.threshold ? a.keep_scale : 0.0f;
}

template <int D> __device__ void clear(float (&c)[D][4]) {
  for (int n = 0; n < D; ++n)
    for (int e = 0; e < 4; ++e) c[n][e] = 0;
}

// Rows [first, first + 16) of a head from results; each lane's pairs lie side by side.
template <int D> __device__ void put_rows(const AttentionArgs& a, const Mat& x, std::int64_t first, std::int64_t column, const float (&c)[D / 8][4], float low, float high, const Place& p) {
  for (int half = 0; half < 2; ++half) {
    const auto row = first + p.g + 8 * half;
    if (row >= a.sequence) continue;
    b16* to = x.row<b16>(p.row0 + row) + column + 2 * p.t;
    const float scale = half == 0 ? low : high;
    for (int n = 0; n < D / 8; ++n) *reinterpret_cast<unsigned*>(to + 8 * n) = pack_bf16(c[n][2 * half] * scale, c[n][2 * half + 1] * scale);
  }
}

// Grid: tiles of queries, heads, sequences. Shared: a tile of keys, a transposed tile of values.
template <int D> __global__ void __launch_bounds__(threads) forward_kernel(AttentionArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  b16* keys = reinterpret_cast<b16*>(memory);
  b16* values = keys + tile * row_pitch<D>;
  const auto p = place_of(a, blockIdx.y);
  // The longest rows first: blocks that start last have the least to do.
  const std::int64_t i0 = static_cast<std::int64_t>(gridDim.x - 1 - blockIdx.x) * tile, own = i0 + 16 * p.warp;
  unsigned q[D / 16][4];
  fetch_rows<D>(a, a.q, own, p.h * D, p, q);
  float out[D / 8][4], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  clear(out);
  const float scale = static_cast<float>(a.scale);
  for (auto j0 = static_cast<std::int64_t>(a.document_start[p.row0 + i0]) / tile * tile; j0 <= i0; j0 += tile) {
    __syncthreads();
    load_rows<D>(a, a.k, p.row0, j0, p.kv * D, keys);
    load_columns<D>(a, a.v, p.row0, j0, p.kv * D, values);
    __syncthreads();
    float s[tile / 8][4];
    clear(s);
    for (int k = 0; k < D / 16; ++k) times_rows<D>(s, q[k], keys, k, p);
    for (int half = 0; half < 2; ++half) {
      const auto i = own + p.g + 8 * half;
      float best = top[half];
      for (int n = 0; n < tile / 8; ++n)
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          const auto j = j0 + 8 * n + 2 * p.t + e % 2;
          s[n][e] = sees(a, p.row0, i, j) ? s[n][e] * scale : -INFINITY;
          best = s[n][e] > best ? s[n][e] : best;
        }
      for (int step = 1; step < 4; step *= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, best, step);
        best = other > best ? other : best;
      }
      const float base = best == -INFINITY ? 0.0f : best;   // a row that sees nothing yet
      const float shrink = exp2f((top[half] - base) * log2_e);
      float part = 0;
      for (int n = 0; n < tile / 8; ++n)
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          const float w = exp2f((s[n][e] - base) * log2_e);
          part += w;
          s[n][e] = a.threshold == 0 || w == 0 ? w : w * kept_scale(a, p, i, j0 + 8 * n + 2 * p.t + e % 2);
        }
      for (int step = 1; step < 4; step *= 2) part += __shfl_xor_sync(0xffffffffu, part, step);
      sum[half] = sum[half] * shrink + part;
      top[half] = best;
      for (int n = 0; n < D / 8; ++n) out[n][2 * half] *= shrink, out[n][2 * half + 1] *= shrink;
    }
    times_columns<D>(out, s, values, p);
  }
  put_rows<D>(a, a.out, own, p.h * D, out, 1.0f / sum[0], 1.0f / sum[1], p);
  for (int half = 0; half < 2; ++half) {
    const auto i = own + p.g + 8 * half;
    if (p.t == 0 && i < a.sequence) a.lse.row<float>(p.b * a.heads + p.h)[i] = top[half] + logf(sum[half]);
  }
}

// p (dropped and scaled) into s, the gradient of the score into dp.
__device__ __forceinline__ void gradients(const AttentionArgs& a, const Place& p, std::int64_t i, std::int64_t j, float lse, float delta, float& s, float& dp) {
  if (!sees(a, p.row0, i, j)) {
    s = dp = 0;
    return;
  }
  const float scale = static_cast<float>(a.scale), w = exp2f((s * scale - lse) * log2_e), kept = kept_scale(a, p, i, j);
  dp = w * (dp * kept - delta) * scale;
  s = w * kept;
}

// Grid: tiles of keys, key-value heads, sequences. A warp owns 16 keys; products are transposed, so that probabilities come out with keys as rows.
template <int D> __global__ void __launch_bounds__(threads) keys_kernel(AttentionArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  constexpr int rows = tile * row_pitch<D>, columns = D * tile_pitch;
  b16* keys = reinterpret_cast<b16*>(memory);
  b16 *values = keys + rows, *queries = values + rows, *douts = queries + rows, *queries_t = douts + rows, *douts_t = queries_t + columns;
  auto* lse = reinterpret_cast<float*>(douts_t + columns);
  auto* delta = lse + tile;
  const std::int64_t kv_head = blockIdx.y, group = a.heads / a.kv_heads, j0 = static_cast<std::int64_t>(blockIdx.x) * tile;
  float dk[D / 8][4], dv[D / 8][4];
  clear(dk), clear(dv);
  auto p = place_of(a, kv_head * group);
  load_rows<D>(a, a.k, p.row0, j0, kv_head * D, keys);
  load_rows<D>(a, a.v, p.row0, j0, kv_head * D, values);
  for (std::int64_t m = 0; m < group; ++m) {
    p.h = kv_head * group + m;
    const auto head = p.b * a.heads + p.h;
    for (auto i0 = j0; i0 < a.sequence; i0 += tile) {
      if (a.document_start[p.row0 + i0] >= j0 + tile) break;   // nor does a later query look back so far
      __syncthreads();
      load_rows<D>(a, a.q, p.row0, i0, p.h * D, queries);
      load_rows<D>(a, a.dout, p.row0, i0, p.h * D, douts);
      load_columns<D>(a, a.q, p.row0, i0, p.h * D, queries_t);
      load_columns<D>(a, a.dout, p.row0, i0, p.h * D, douts_t);
      for (int i = static_cast<int>(threadIdx.x); i < tile; i += threads) {
        lse[i] = i0 + i < a.sequence ? a.lse.row<float>(head)[i0 + i] : 0.0f;
        delta[i] = i0 + i < a.sequence ? reinterpret_cast<const float*>(a.scratch)[head * a.sequence + i0 + i] : 0.0f;
      }
      __syncthreads();
      float s[tile / 8][4], dp[tile / 8][4];
      clear(s), clear(dp);
      for (int k = 0; k < D / 16; ++k) {
        unsigned x[4];
        take_rows<D>(keys, 16 * p.warp, k, p, x);
        times_rows<D>(s, x, queries, k, p);
        take_rows<D>(values, 16 * p.warp, k, p, x);
        times_rows<D>(dp, x, douts, k, p);
      }
      for (int n = 0; n < tile / 8; ++n)
        for (int e = 0; e < 4; ++e) {
          const int i = 8 * n + 2 * p.t + e % 2;
          gradients(a, p, i0 + i, j0 + 16 * p.warp + p.g + e / 2 * 8, lse[i], delta[i], s[n][e], dp[n][e]);
        }
      times_columns<D>(dv, s, douts_t, p);
      times_columns<D>(dk, dp, queries_t, p);
    }
  }
  put_rows<D>(a, a.dk, j0 + 16 * p.warp, kv_head * D, dk, 1.0f, 1.0f, p);
  put_rows<D>(a, a.dv, j0 + 16 * p.warp, kv_head * D, dv, 1.0f, 1.0f, p);
}

// Grid: tiles of queries, heads, sequences. A warp owns 16 queries.
template <int D> __global__ void __launch_bounds__(threads) queries_kernel(AttentionArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  b16* keys = reinterpret_cast<b16*>(memory);
  b16 *values = keys + tile * row_pitch<D>, *keys_t = values + tile * row_pitch<D>;
  const auto p = place_of(a, blockIdx.y);
  const std::int64_t i0 = static_cast<std::int64_t>(gridDim.x - 1 - blockIdx.x) * tile, own = i0 + 16 * p.warp, head = p.b * a.heads + p.h;
  unsigned q[D / 16][4], dout[D / 16][4];
  fetch_rows<D>(a, a.q, own, p.h * D, p, q);
  fetch_rows<D>(a, a.dout, own, p.h * D, p, dout);
  float lse[2], delta[2], dq[D / 8][4];
  clear(dq);
  for (int half = 0; half < 2; ++half) {
    const auto i = own + p.g + 8 * half;
    lse[half] = i < a.sequence ? a.lse.row<float>(head)[i] : 0.0f;
    delta[half] = i < a.sequence ? reinterpret_cast<const float*>(a.scratch)[head * a.sequence + i] : 0.0f;
  }
  for (auto j0 = static_cast<std::int64_t>(a.document_start[p.row0 + i0]) / tile * tile; j0 <= i0; j0 += tile) {
    __syncthreads();
    load_rows<D>(a, a.k, p.row0, j0, p.kv * D, keys);
    load_rows<D>(a, a.v, p.row0, j0, p.kv * D, values);
    load_columns<D>(a, a.k, p.row0, j0, p.kv * D, keys_t);
    __syncthreads();
    float s[tile / 8][4], dp[tile / 8][4];
    clear(s), clear(dp);
    for (int k = 0; k < D / 16; ++k) {
      times_rows<D>(s, q[k], keys, k, p);
      times_rows<D>(dp, dout[k], values, k, p);
    }
    for (int n = 0; n < tile / 8; ++n)
      for (int e = 0; e < 4; ++e) gradients(a, p, own + p.g + e / 2 * 8, j0 + 8 * n + 2 * p.t + e % 2, lse[e / 2], delta[e / 2], s[n][e], dp[n][e]);
    times_columns<D>(dq, dp, keys_t, p);
  }
  put_rows<D>(a, a.dq, own, p.h * D, dq, 1.0f, 1.0f, p);
}

template <int D> constexpr int rows_bytes = tile * row_pitch<D> * 2;
template <int D> constexpr int columns_bytes = D * tile_pitch * 2;

dim3 grid_of(const AttentionArgs& a, std::int64_t heads) {
  return dim3(static_cast<unsigned>((a.sequence + tile - 1) / tile), static_cast<unsigned>(heads), static_cast<unsigned>(a.batch));
}

template <int D> const char* forward(const AttentionArgs& a, void* stream) {
  TRAINYARD_LAUNCH_SHARED(forward_kernel<D>, (rows_bytes<D> + columns_bytes<D>), grid_of(a, a.heads), threads, stream, a);
  return launch_failure();
}

template <int D> const char* backward(const AttentionArgs& a, void* stream) {
  TRAINYARD_LAUNCH_SHARED(keys_kernel<D>, (4 * rows_bytes<D> + 2 * columns_bytes<D> + 8 * tile), grid_of(a, a.kv_heads), threads, stream, a);
  TRAINYARD_LAUNCH_SHARED(queries_kernel<D>, (2 * rows_bytes<D> + columns_bytes<D>), grid_of(a, a.heads), threads, stream, a);
  return launch_failure();
}

bool aligned(const Mat& m) { return m.empty() || (reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0 && m.pitch % 8 == 0); }

}  // namespace

bool gpu::attention_mma_fits(const AttentionArgs& a) {
  if (a.q.type != Type::bf16 || (a.head_dim != 64 && a.head_dim != 128)) return false;
  for (const Mat* m : {&a.q, &a.k, &a.v, &a.out, &a.dout, &a.dq, &a.dk, &a.dv})
    if (!aligned(*m)) return false;
  return true;
}

const char* gpu::attention_forward_mma(const AttentionArgs& a, void* stream) { return a.head_dim == 64 ? forward<64>(a, stream) : forward<128>(a, stream); }
const char* gpu::attention_backward_mma(const AttentionArgs& a, void* stream) { return a.head_dim == 64 ? backward<64>(a, stream) : backward<128>(a, stream); }

}  // namespace trainyard::kernels

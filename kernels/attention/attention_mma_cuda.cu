// Attention on tensor cores after Dao (2023), "FlashAttention-2", in tiles of 64 keys; a warp owns 16 or 32 rows. Tiles
// come to shared memory while the one before is worked on. Backward goes by keys for dk and dv, then by queries for dq,
// and recomputes the probabilities in both, so that nothing is added atomically and the bits do not depend on the order
// of blocks. document_start does not fall within a sequence, so a tile's first query sees farthest back, and its last
// one least far.
#include "kernels/attention/attention_mma.h"
#include "kernels/gpu_mma.h"

namespace trainyard::kernels {
namespace {

constexpr int tile = 64, warps = 4, threads = 32 * warps;
template <int D> constexpr int pitch = D + 8;  // 8 more: rows fall into different banks
template <int D> constexpr int tile_elements = tile* pitch<D>;
template <int D> constexpr int forward_blocks = D == 64 ? 2 : 1;  // of 16 queries that a warp owns in the forward pass
constexpr float log2_e = 1.44269504f, ln_2 = 0.69314718f;

struct Position {
  std::int64_t b, h, kv, row0;
  int warp, lane, g, t;  // g, t: as in gpu_mma.h
};
__device__ Position position_of(const AttentionArgs& a, std::int64_t h) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t b = blockIdx.z;
  return {b,        h,       h / (a.heads / a.kv_heads), b * a.sequence, static_cast<int>(threadIdx.x) / 32, lane,
          lane / 4, lane % 4};
}

// Begins to fetch rows [first, first + tile) of one head; rows beyond the sequence become zero.
template <int D> __device__ void fetch_tile(const AttentionArgs& a, const Mat& x, std::int64_t row0, int first,
                                            std::int64_t column, b16* to) {
  const b16* from = x.row<b16>(row0) + column;
  for (int i = static_cast<int>(threadIdx.x); i < tile * D / 8; i += threads) {
    const int r = i / (D / 8), c = i % (D / 8) * 8;
    const bool there = first + r < a.sequence;
    copy_16(to + r * pitch<D> + c, there ? from + (first + r) * x.pitch + c : from, there);
  }
}

// The same for keys and values side by side, as one group of copies.
template <int D>
__device__ __forceinline__ void fetch_pair(const AttentionArgs& a, const Position& p, int first, b16* to) {
  fetch_tile<D>(a, a.k, p.row0, first, p.kv * D, to);
  fetch_tile<D>(a, a.v, p.row0, first, p.kv * D, to + tile_elements<D>);
  close_copies();
}

// The a of rows [row, row + 16) and channels [16 k, 16 k + 16) of a tile.
template <int D>
__device__ __forceinline__ void take_rows(const b16* from, int row, int k, const Position& p, unsigned (&a)[4]) {
  load_tiles(a, from + (row + p.lane % 16) * pitch<D> + 16 * k + p.lane / 16 * 8);
}
// The same from device memory, once for a whole loop; rows beyond the sequence are zero.
template <int D> __device__ void fetch_rows(const AttentionArgs& a, const Mat& x, int first, std::int64_t column,
                                            const Position& p, unsigned (&out)[D / 16][4]) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k)
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const auto row = first + p.g + (part % 2) * 8;
      out[k][part] =
          row < a.sequence ? pair_at(x.row<b16>(p.row0 + row) + column + 16 * k + 2 * p.t + part / 2 * 8) : 0u;
    }
}

// c[m] += a[m] . (rows of a tile), for the 16 channels of step k.
template <int D, int M> __device__ __forceinline__ void times_rows(float (&c)[M][tile / 8][4],
                                                                   const unsigned (&a)[M][4], const b16* from, int k,
                                                                   const Position& p) {
#pragma unroll
  for (int n = 0; n < tile / 16; ++n) {
    unsigned b[4];
    load_tiles(b, from + (16 * n + p.lane / 16 * 8 + p.lane % 8) * pitch<D> + 16 * k + p.lane / 8 % 2 * 8);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      mma_bf16(c[m][2 * n], a[m], b[0], b[1]);
      mma_bf16(c[m][2 * n + 1], a[m], b[2], b[3]);
    }
  }
}
// c[m] += x[m] . tile, where x holds results of an earlier product.
template <int D, int M> __device__ __forceinline__ void times_columns(float (&c)[M][D / 8][4],
                                                                      const float (&x)[M][tile / 8][4], const b16* from,
                                                                      const Position& p) {
#pragma unroll
  for (int k = 0; k < tile / 16; ++k) {
    unsigned a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int part = 0; part < 4; ++part)
        a[m][part] = pack_bf16(x[m][2 * k + part / 2][part % 2 * 2], x[m][2 * k + part / 2][part % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      unsigned b[4];
      load_tiles_transposed(b, from + (16 * k + p.lane % 16) * pitch<D> + 16 * n + p.lane / 16 * 8);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        mma_bf16(c[m][2 * n], a[m], b[0], b[1]);
        mma_bf16(c[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// The scales of keys j and j + 1, j even, for query i: 1 without dropout, 0 where dropped.
struct Two {
  float v[2];
};
__device__ __forceinline__ Two kept_scales(const AttentionArgs& a, const Position& p, int i, int j) {
  if (a.threshold == 0) return {{1.0f, 1.0f}};
  const auto words =
      philox_words(a.seed + a.samples[p.b] * 0x9E3779B97F4A7C15ull, a.site + static_cast<std::uint64_t>(p.h),
                   (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>(j / 4));
  const bool upper = j % 4 != 0;
  return {{(upper ? words.w[2] : words.w[0]) >= a.threshold ? a.keep_scale : 0.0f,
           (upper ? words.w[3] : words.w[1]) >= a.threshold ? a.keep_scale : 0.0f}};
}

template <int M, int N> __device__ __forceinline__ void clear(float (&c)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) c[m][n][e] = 0;
}

// Rows [first, first + 16) of a head from results; each lane's pairs lie side by side.
template <int D> __device__ void put_rows(const AttentionArgs& a, const Mat& x, int first, std::int64_t column,
                                          const float (&c)[D / 8][4], float low, float high, const Position& p) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto row = first + p.g + 8 * half;
    if (row >= a.sequence) continue;
    b16* to = x.row<b16>(p.row0 + row) + column + 2 * p.t;
    const float scale = half == 0 ? low : high;
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
      *reinterpret_cast<unsigned*>(to + 8 * n) = pack_bf16(c[n][2 * half] * scale, c[n][2 * half + 1] * scale);
  }
}

// Positions within a sequence are int.
__device__ __forceinline__ int start_of(const AttentionArgs& a, const Position& p, int i) {
  return a.document_start[p.row0 + (i < a.sequence ? i : a.sequence - 1)];
}

// Grid: tiles of queries, heads, sequences. Shared: two pairs of tiles of keys and values.
template <int D> __global__ void __launch_bounds__(threads) forward_kernel(AttentionArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  constexpr int M = forward_blocks<D>, rows = 16 * M * warps;
  b16* tiles = reinterpret_cast<b16*>(memory);
  const auto p = position_of(a, blockIdx.y);
  // The longest rows first: blocks that start last have the least to do.
  const int i0 = static_cast<int>(gridDim.x - 1 - blockIdx.x) * rows, own = i0 + 16 * M * p.warp;
  const int last = i0 + rows < a.sequence ? i0 + rows - 1 : static_cast<int>(a.sequence) - 1;
  const auto fetch = [&](int j0, int slot) { fetch_pair<D>(a, p, j0, tiles + 2 * slot * tile_elements<D>); };
  const int begin = start_of(a, p, i0) / tile * tile;
  fetch(begin, 0);
  unsigned q[M][D / 16][4];
  int start[M][2];
  float out[M][D / 8][4], top[M][2], sum[M][2];
  clear(out);
#pragma unroll
  for (int m = 0; m < M; ++m) {
    fetch_rows<D>(a, a.q, own + 16 * m, p.h * D, p, q[m]);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      start[m][half] = start_of(a, p, own + 16 * m + p.g + 8 * half), top[m][half] = -INFINITY, sum[m][half] = 0;
  }
  const int least_far = start_of(a, p, last);
  const float scale = static_cast<float>(a.scale) * log2_e;
  int slot = 0;
  for (int j0 = begin; j0 <= last; j0 += tile, slot ^= 1) {
    await_copies();
    __syncthreads();
    if (j0 + tile <= last) fetch(j0 + tile, slot ^ 1);
    const b16 *keys = tiles + 2 * slot * tile_elements<D>, *values = keys + tile_elements<D>;
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
    const bool all_seen = j0 + tile - 1 <= own && least_far <= j0;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto i = own + 16 * m + p.g + 8 * half;
        float best = top[m][half];
#pragma unroll
        for (int n = 0; n < tile / 8; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            const auto j = j0 + 8 * n + 2 * p.t + e % 2;
            s[m][n][e] = all_seen || (j <= i && j >= start[m][half]) ? s[m][n][e] * scale : -INFINITY;
            best = s[m][n][e] > best ? s[m][n][e] : best;
          }
#pragma unroll
        for (int step = 1; step < 4; step *= 2) {
          const float other = __shfl_xor_sync(0xffffffffu, best, step);
          best = other > best ? other : best;
        }
        const float base = best == -INFINITY ? 0.0f : best;  // a row that sees nothing yet
        const float shrink = exp2f(top[m][half] - base);
        float part = 0;
#pragma unroll
        for (int n = 0; n < tile / 8; ++n) {
          const auto kept = kept_scales(a, p, i, j0 + 8 * n + 2 * p.t);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float w = exp2f(s[m][n][2 * half + e] - base);
            part += w;
            s[m][n][2 * half + e] = w * kept.v[e];
          }
        }
#pragma unroll
        for (int step = 1; step < 4; step *= 2) part += __shfl_xor_sync(0xffffffffu, part, step);
        sum[m][half] = sum[m][half] * shrink + part;
        top[m][half] = best;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) out[m][n][2 * half] *= shrink, out[m][n][2 * half + 1] *= shrink;
      }
    times_columns<D, M>(out, s, values, p);
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
    put_rows<D>(a, a.out, own + 16 * m, p.h * D, out[m], 1.0f / sum[m][0], 1.0f / sum[m][1], p);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto i = own + 16 * m + p.g + 8 * half;
      if (p.t == 0 && i < a.sequence)
        a.lse.row<float>(p.b * a.heads + p.h)[i] = (top[m][half] + log2f(sum[m][half])) * ln_2;
    }
  }
}

// p (dropped and scaled) into s, the gradient of the score into dp; lse in powers of 2.
__device__ __forceinline__ void gradients(float scale, float lse, float delta, float kept, float& s, float& dp) {
  const float w = exp2f(s * (scale * log2_e) - lse);
  dp = w * (dp * kept - delta) * scale;
  s = w * kept;
}

// What a tile of queries brings along for each of them.
struct PerQuery {
  float lse[tile], delta[tile];
  int start[tile];
};
template <int D> struct KeysShared {
  b16 keys[tile_elements<D>], values[tile_elements<D>], queries[2][tile_elements<D>], douts[2][tile_elements<D>];
  PerQuery per_query[2];
};

// Grid: tiles of keys, key-value heads, sequences. A warp owns 16 keys; products are transposed, so that probabilities
// come out with keys as rows.
template <int D> __global__ void __launch_bounds__(threads) keys_kernel(AttentionArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  auto& shared = *reinterpret_cast<KeysShared<D>*>(memory);
  const std::int64_t kv_head = blockIdx.y, group = a.heads / a.kv_heads;
  const int j0 = static_cast<int>(blockIdx.x) * tile;
  auto p = position_of(a, kv_head * group);
  // Tiles of queries that see any of these keys: up to the first one whose first query looks back less far.
  int end = j0;
  while (end < a.sequence && a.document_start[p.row0 + end] < j0 + tile) end += tile;
  const int each = (end - j0) / tile, steps = static_cast<int>(group) * each;
  const auto fetch = [&](int step, int slot) {
    const auto h = kv_head * group + step / each, head = p.b * a.heads + h;
    const int i0 = j0 + step % each * tile;
    fetch_tile<D>(a, a.q, p.row0, i0, h * D, shared.queries[slot]);
    fetch_tile<D>(a, a.dout, p.row0, i0, h * D, shared.douts[slot]);
    close_copies();
    auto& to = shared.per_query[slot];
    for (int i = static_cast<int>(threadIdx.x); i < tile; i += threads) {
      const bool there = i0 + i < a.sequence;
      to.lse[i] = there ? a.lse.row<float>(head)[i0 + i] * log2_e : 0.0f;
      to.delta[i] = there ? reinterpret_cast<const float*>(a.scratch)[head * a.sequence + i0 + i] : 0.0f;
      to.start[i] = there ? a.document_start[p.row0 + i0 + i] : 0x7fffffff;
    }
  };
  float dk[1][D / 8][4], dv[1][D / 8][4];
  clear(dk), clear(dv);
  fetch_tile<D>(a, a.k, p.row0, j0, kv_head * D, shared.keys);
  fetch_tile<D>(a, a.v, p.row0, j0, kv_head * D, shared.values);
  fetch(0, 0);
  const float scale = static_cast<float>(a.scale);
  int slot = 0;
  for (int step = 0; step < steps; ++step, slot ^= 1) {
    await_copies();
    __syncthreads();
    if (step + 1 < steps) fetch(step + 1, slot ^ 1);
    const int i0 = j0 + step % each * tile;
    p.h = kv_head * group + step / each;
    const b16 *queries = shared.queries[slot], *douts = shared.douts[slot];
    const auto& of = shared.per_query[slot];
    float s[1][tile / 8][4], dp[1][tile / 8][4];
    clear(s), clear(dp);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      unsigned x[1][4];
      take_rows<D>(shared.keys, 16 * p.warp, k, p, x[0]);
      times_rows<D, 1>(s, x, queries, k, p);
      take_rows<D>(shared.values, 16 * p.warp, k, p, x[0]);
      times_rows<D, 1>(dp, x, douts, k, p);
    }
    const bool all_seen =
        j0 + tile - 1 <= i0 && of.start[tile - 1] <= j0;  // a last query beyond the sequence starts nowhere
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = 8 * n + 2 * p.t + e % 2;
        const auto j = j0 + 16 * p.warp + p.g + e / 2 * 8;
        if (!all_seen && (j > i0 + i || j < of.start[i])) {
          s[0][n][e] = dp[0][n][e] = 0;
          continue;
        }
        const auto kept = kept_scales(a, p, i0 + i, j / 2 * 2);
        gradients(scale, of.lse[i], of.delta[i], j % 2 == 0 ? kept.v[0] : kept.v[1], s[0][n][e], dp[0][n][e]);
      }
    times_columns<D, 1>(dv, s, douts, p);
    times_columns<D, 1>(dk, dp, queries, p);
  }
  put_rows<D>(a, a.dk, j0 + 16 * p.warp, kv_head * D, dk[0], 1.0f, 1.0f, p);
  put_rows<D>(a, a.dv, j0 + 16 * p.warp, kv_head * D, dv[0], 1.0f, 1.0f, p);
}

// Grid: tiles of queries, heads, sequences. A warp owns 16 queries. Shared: two pairs of tiles of keys and values.
template <int D> __global__ void __launch_bounds__(threads) queries_kernel(AttentionArgs a) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  b16* tiles = reinterpret_cast<b16*>(memory);
  const auto p = position_of(a, blockIdx.y);
  const int i0 = static_cast<int>(gridDim.x - 1 - blockIdx.x) * tile, own = i0 + 16 * p.warp;
  const auto head = p.b * a.heads + p.h;
  const auto fetch = [&](int j0, int slot) { fetch_pair<D>(a, p, j0, tiles + 2 * slot * tile_elements<D>); };
  const int begin = start_of(a, p, i0) / tile * tile, least_far = start_of(a, p, i0 + tile - 1);
  fetch(begin, 0);
  unsigned q[D / 16][4], dout[D / 16][4];
  fetch_rows<D>(a, a.q, own, p.h * D, p, q);
  fetch_rows<D>(a, a.dout, own, p.h * D, p, dout);
  float lse[2], delta[2], dq[1][D / 8][4];
  int start[2];
  clear(dq);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto i = own + p.g + 8 * half;
    lse[half] = i < a.sequence ? a.lse.row<float>(head)[i] * log2_e : 0.0f;
    delta[half] = i < a.sequence ? reinterpret_cast<const float*>(a.scratch)[head * a.sequence + i] : 0.0f;
    start[half] = start_of(a, p, i);
  }
  const float scale = static_cast<float>(a.scale);
  int slot = 0;
  for (int j0 = begin; j0 <= i0; j0 += tile, slot ^= 1) {
    await_copies();
    __syncthreads();
    if (j0 + tile <= i0) fetch(j0 + tile, slot ^ 1);
    const b16 *keys = tiles + 2 * slot * tile_elements<D>, *values = keys + tile_elements<D>;
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
    const bool all_seen = j0 + tile - 1 <= own && least_far <= j0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto i = own + p.g + 8 * half;
#pragma unroll
      for (int n = 0; n < tile / 8; ++n) {
        const auto j = j0 + 8 * n + 2 * p.t;
        const auto kept = kept_scales(a, p, i, j);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float &sn = s[0][n][2 * half + e], &dn = dp[0][n][2 * half + e];
          if (all_seen || (j + e <= i && j + e >= start[half]))
            gradients(scale, lse[half], delta[half], kept.v[e], sn, dn);
          else sn = dn = 0;
        }
      }
    }
    times_columns<D, 1>(dq, dp, keys, p);
  }
  put_rows<D>(a, a.dq, own, p.h * D, dq[0], 1.0f, 1.0f, p);
}

// delta[b * heads + h][i] = out . dout, D / 8 lanes to a row.
template <int D> __global__ void delta_kernel(AttentionArgs a) {
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

template <int D> constexpr int two_pairs_bytes = 4 * tile_elements<D> * 2;

dim3 grid_of(const AttentionArgs& a, std::int64_t heads, int rows) {
  return dim3(static_cast<unsigned>((a.sequence + rows - 1) / rows), static_cast<unsigned>(heads),
              static_cast<unsigned>(a.batch));
}

template <int D> const char* forward(const AttentionArgs& a, void* stream) {
  TRAINYARD_LAUNCH_SHARED(forward_kernel<D>, two_pairs_bytes<D>, grid_of(a, a.heads, 16 * warps * forward_blocks<D>),
                          threads, stream, a);
  return launch_failure();
}

template <int D> const char* backward(const AttentionArgs& a, void* stream) {
  const auto delta_rows = threads / (D / 8);
  TRAINYARD_LAUNCH(delta_kernel<D>, true,
                   static_cast<unsigned>((a.batch * a.heads * a.sequence + delta_rows - 1) / delta_rows), threads,
                   stream, a);
  TRAINYARD_LAUNCH_SHARED(keys_kernel<D>, static_cast<int>(sizeof(KeysShared<D>)), grid_of(a, a.kv_heads, tile),
                          threads, stream, a);
  TRAINYARD_LAUNCH_SHARED(queries_kernel<D>, two_pairs_bytes<D>, grid_of(a, a.heads, tile), threads, stream, a);
  return launch_failure();
}

bool aligned(const Mat& m) {
  return m.empty() || (reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0 && m.pitch % 8 == 0);
}

}  // namespace

bool gpu::attention_mma_fits(const AttentionArgs& a) {
  if (a.q.type != Type::bf16 || (a.head_dim != 64 && a.head_dim != 128)) return false;
  for (const Mat* m : {&a.q, &a.k, &a.v, &a.out, &a.dout, &a.dq, &a.dk, &a.dv})
    if (!aligned(*m)) return false;
  return true;
}

const char* gpu::attention_forward_mma(const AttentionArgs& a, void* stream) {
  return a.head_dim == 64 ? forward<64>(a, stream) : forward<128>(a, stream);
}
const char* gpu::attention_backward_mma(const AttentionArgs& a, void* stream) {
  return a.head_dim == 64 ? backward<64>(a, stream) : backward<128>(a, stream);
}

}  // namespace trainyard::kernels

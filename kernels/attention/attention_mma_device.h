// Attention on tensor cores: tiles in shared memory and their products, visibility, and walks over tiles. For
// attention_mma_*_cuda.cu.
#pragma once

#include "kernels/attention/attention_sees_device.h"
#include "kernels/gpu_mma.h"

namespace trainyard::kernels {
namespace {

constexpr int tile = 64, warps = 4, threads = 32 * warps;
static_assert(tile == list_tile);
template <int D> constexpr int pitch = D + 8;  // 8 more, so that rows fall into different banks
template <int D> constexpr int tile_elements = tile* pitch<D>;

struct Position {
  std::int64_t b, h, kv, row0, key_row0;
  int warp, lane, g, t;  // g, t: as in gpu_mma.h
};
__device__ Position position_of(const AttentionArgs& a, std::int64_t h) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t b = blockIdx.z;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return {b, h, h / (a.heads / a.kv_heads), b * a.sequence, b * a.keys, warp, lane, lane / 4, lane % 4};
}

// Starts the copy of rows [first, first + tile) of one head of a sequence, which has `rows` rows from row0 on. Other
// rows become zero. Before: first may be below 0.
template <int D, int W = warps, bool Before = false> __device__ void fetch_tile(std::int64_t rows, const ConstMat& x,
                                                                                std::int64_t row0, int first,
                                                                                std::int64_t column, b16* to) {
  constexpr int at_once = 32 * W / (D / 8);  // rows copied at once
  const int r = static_cast<int>(threadIdx.x) / (D / 8), c = static_cast<int>(threadIdx.x) % (D / 8) * 8;
  const int left = static_cast<int>(rows) - first - r;
  const b16* from = x.row<b16>(row0 + first + r) + column + c;
  b16* into = to + r * pitch<D> + c;
#pragma unroll
  for (int k = 0; k < tile / at_once; ++k, from += at_once * x.pitch)
    copy_16(into + k * at_once * pitch<D>, from, k * at_once < left && (!Before || first + r + k * at_once >= 0));
}

// The same for the tiles of keys and of values, one behind the other, as one group of copies.
template <int D, int W = warps, bool Before = false>
__device__ __forceinline__ void fetch_pair(const AttentionArgs& a, const Position& p, int first, b16* to) {
  fetch_tile<D, W, Before>(a.keys, a.k, p.key_row0, first, p.kv * D, to);
  fetch_tile<D, W, Before>(a.keys, a.v, p.key_row0, first, p.kv * D, to + tile_elements<D>);
  close_copies();
}

// Loads the operand `a` of rows [row, row + 16) and channels [16 k, 16 k + 16) of a tile.
template <int D>
__device__ __forceinline__ void take_rows(const b16* from, int row, int k, const Position& p, unsigned (&a)[4]) {
  load_tiles(a, from + (row + p.lane % 16) * pitch<D> + 16 * k + p.lane / 16 * 8);
}
// The same for queries from device memory, once for a whole loop. Queries past the sequence's end are zero.
template <int D> __device__ void fetch_rows(const AttentionArgs& a, const ConstMat& x, int first, std::int64_t column,
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

// The factors of keys j and j + 1, j even, for query i: 1 without dropout, 0 where dropped. Drops: whether there is
// dropout. A kernel without dropout has no random words in its loops.
struct Two {
  float v[2];
};
template <bool Drops>
__device__ __forceinline__ Two kept_scales(const AttentionArgs& a, const Position& p, int i, int j) {
  if constexpr (!Drops) return {{1.0f, 1.0f}};
  const auto words =
      philox_words(a.seed + a.samples[p.b] * 0x9E3779B97F4A7C15ull, a.site + static_cast<std::uint64_t>(p.h),
                   (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>(j / 4));
  const bool upper = j % 4 != 0;
  return {{(upper ? words.w[2] : words.w[0]) >= a.threshold ? a.keep_scale : 0.0f,
           (upper ? words.w[3] : words.w[1]) >= a.threshold ? a.keep_scale : 0.0f}};
}

// How products become powers of 2. With a cap, the powers are power tanh(inner product), otherwise power product. A
// bias of positions, times log2_e, is added to that.
struct Powers {
  float power, inner = 0;  // inner 0: there is no cap
  __device__ __forceinline__ explicit Powers(const AttentionArgs& a)
      : power(static_cast<float>(a.softcap == 0 ? a.scale : a.softcap) * log2_e),
        inner(a.softcap == 0 ? 0.0f : static_cast<float>(a.scale / a.softcap)) {}
};

// In the backward pass s becomes p (with dropout applied), and dp becomes the gradient of the scaled score, before its
// cap. lse is in powers of 2. Products with dp still need the scale of scores. Shaped: whether scores have a cap or a
// bias; `bias` is its value in powers of 2. OfBias: dp becomes the gradient of the score behind the cap.
template <bool Drops, bool Shaped, bool OfBias = false>
__device__ __forceinline__ void gradients(const Powers& powers, float lse, float bias, float delta, float kept,
                                          float& s, float& dp) {
  const bool caps = Shaped && powers.inner != 0;
  if (caps) s = tanh_of(s * powers.inner);
  const float w = exp2_of(s * powers.power - (Shaped ? lse - bias : lse));
  dp = w * ((Drops ? dp * kept : dp) - delta);
  if (caps && !OfBias) dp *= 1.0f - s * s;
  s = Drops ? w * kept : w;
}

template <int M, int N> __device__ __forceinline__ void clear(float (&c)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) c[m][n][e] = 0;
}

// Rows of a matrix that belong to a sequence: `rows` from row0 on.
struct RowsOf {
  const Mat& x;
  std::int64_t row0, rows;
};
// Stores rows [first, first + 16) of a head from results. Each lane's pairs are neighbours in memory.
template <int D> __device__ void put_rows(const RowsOf& to, int first, std::int64_t column, const float (&c)[D / 8][4],
                                          float low, float high, const Position& p) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto row = first + p.g + 8 * half;
    if (row >= to.rows) continue;
    b16* at = to.x.row<b16>(to.row0 + row) + column + 2 * p.t;
    const float scale = half == 0 ? low : high;
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
      *reinterpret_cast<unsigned*>(at + 8 * n) = pack_bf16(c[n][2 * half] * scale, c[n][2 * half + 1] * scale);
  }
}

// The first key of query i's document and window; a query past the sequence's end counts as its last query. Positions
// are int.
__device__ __forceinline__ int start_of(const AttentionArgs& a, const Position& p, int i) {
  return begin_of(a, p.row0, i < a.sequence ? i : static_cast<int>(a.sequence) - 1);
}

// Which keys the queries of a warp see: M blocks of 16 queries from `own` on. A lane handles rows g and g + 8 of each
// block. n means the keys [8 n, 8 n + 8) of a tile.
template <Sees S, int M> struct Rows;
template <int M> struct Rows<Sees::earlier, M> {
  int own, g, least_far, start[M][2];
  // last: the last query of the block of threads.
  __device__ __forceinline__ Rows(const AttentionArgs& a, const Position& p, int own, int last)
      : own(own), g(p.g), least_far(start_of(a, p, last)) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) start[m][half] = start_of(a, p, own + 16 * m + g + 8 * half);
  }
  __device__ __forceinline__ bool none(unsigned) const { return false; }
  __device__ __forceinline__ bool all(int j0, unsigned) const { return j0 + tile - 1 <= own && least_far <= j0; }
  __device__ __forceinline__ bool sees(int m, int half, int j, int, unsigned) const {
    return j <= own + 16 * m + g + 8 * half && j >= start[m][half];
  }
};
template <int M> struct Rows<Sees::any, M> {
  int shift, far, near;  // shift: its parts in a tile; far: begin of the last query's keys; near: end of the first's
  Keys keys[M][2];
  __device__ __forceinline__ Rows(const AttentionArgs& a, const Position& p, int own, int)
      : shift(part_of(own % list_tile / list_part, 0)), far(keys_of(a, p.row0, own + 16 * M - 1).lo),
        near(keys_of(a, p.row0, own).hi) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) keys[m][half] = keys_of(a, p.row0, own + 16 * m + p.g + 8 * half);
  }
  __device__ __forceinline__ bool none(unsigned parts) const { return (parts >> shift & every_key) == 0; }
  __device__ __forceinline__ bool all(int j0, unsigned parts) const {
    return (parts >> shift & every_key) == every_key && far <= j0 && near >= j0 + tile;
  }
  __device__ __forceinline__ bool sees(int m, int half, int j, int n, unsigned parts) const {
    return j >= keys[m][half].lo && j < keys[m][half].hi && (parts >> (shift + part_of(m, n / 2)) & 1u) != 0;
  }
  static constexpr unsigned every_key = (1u << part_of(M, 0)) - 1;
};

// Walks the tiles of keys that queries [i0, last] of a sequence see, and names the next tile, to be fetched meanwhile.
template <Sees S> struct KeyTiles;
template <> struct KeyTiles<Sees::earlier> {
  int j0, last;
  __device__ __forceinline__ KeyTiles(const AttentionArgs& a, const Position& p, int i0, int last)
      : j0(start_of(a, p, i0) / tile * tile), last(last) {}
  __device__ __forceinline__ bool there() const { return j0 <= last; }
  __device__ __forceinline__ bool more() const { return j0 + tile <= last; }
  __device__ __forceinline__ int next() const { return j0 + tile; }
  __device__ __forceinline__ unsigned parts() const { return every_part; }
  __device__ __forceinline__ void step(const AttentionArgs&) { j0 += tile; }
};
template <> struct KeyTiles<Sees::any> {
  TileWalk walk;
  TileStep now, coming;
  int j0;
  __device__ __forceinline__ KeyTiles(const AttentionArgs& a, const Position& p, int i0, int last)
      : walk(walk_keys(a, p.row0, p.h, i0, last + 1)), now(walk.take(a.visibility.by_queries)),
        coming(walk.take(a.visibility.by_queries)), j0(now.tile * tile) {}
  __device__ __forceinline__ bool there() const { return now.tile >= 0; }
  __device__ __forceinline__ bool more() const { return coming.tile >= 0; }
  __device__ __forceinline__ int next() const { return coming.tile * tile; }
  __device__ __forceinline__ unsigned parts() const { return now.parts; }
  __device__ __forceinline__ void step(const AttentionArgs& a) {
    now = coming, j0 = now.tile * tile, coming = walk.take(a.visibility.by_queries);
  }
};

// The first row that a block of threads works on. If causal, the longest rows come first, so that the blocks that start
// last have the least to do. Otherwise rows go in order, because in most layouts the first rows see everything.
template <Sees S> __device__ __forceinline__ int first_row(const AttentionArgs& a, int rows) {
  const bool back = S == Sees::earlier || a.visibility.causal;
  return static_cast<int>(back ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * rows;
}

// Calls body.operator()<true>() if the arguments have dropout, otherwise body.operator()<false>().
template <class Body> const char* with_dropout(const AttentionArgs& a, const Body& body) {
  return a.threshold != 0 ? body.template operator()<true>() : body.template operator()<false>();
}

// Blocks of `rows` rows of `length`, for each head and sequence.
inline dim3 grid_of(const AttentionArgs& a, std::int64_t length, std::int64_t heads, int rows) {
  return dim3(static_cast<unsigned>((length + rows - 1) / rows), static_cast<unsigned>(heads),
              static_cast<unsigned>(a.batch));
}

template <int D> constexpr int two_pairs_bytes = 4 * tile_elements<D> * 2;
// The most shared memory of these kernels: three pairs of tiles, and the backward pass's numbers of each query.
template <int D> constexpr int most_bytes = 6 * tile_elements<D> * 2 + 4096;
static_assert(most_bytes<64> <= 163 << 10 && most_bytes<128> <= 163 << 10);  // compute capability 8.0 has that much

}  // namespace
}  // namespace trainyard::kernels

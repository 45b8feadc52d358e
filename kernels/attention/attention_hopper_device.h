// Attention on Hopper, shared by its forward and backward passes: tiles in a ring of shared memory, products of a group
// of 64 rows, masking, and rows of results. For attention_hopper_*_cuda.cu.
#pragma once

#include "kernels/attention/attention_mma.h"
#include "kernels/attention/attention_sees_device.h"
#include "kernels/gpu_hopper.h"

namespace trainyard::kernels {
namespace {

// Whether to use the kernels for Hopper. They must be switched on, until they have passed the test suite on a device.
// They need queries that see earlier keys of their document and window, no dropout, no cap of scores, for whose slope
// the backward pass has no registers left, and no bias of positions. Jobs are counted in int.
template <class Args> bool hopper_fits(const Args& a) {
  constexpr std::int64_t most_tiles = 1 << 29;
  return a.hopper && is_hopper() && gpu::attention_mma_fits(a) && sees_of(a) == Sees::earlier && a.threshold == 0 &&
         a.softcap == 0 && a.bias == nullptr && a.scratch != nullptr &&
         a.batch * a.heads * (a.sequence / 64 + 1) <= most_tiles;
}
// How many of `heads` heads, of `bytes` bytes each, certainly fit the L2 cache together.
inline int heads_at_once(std::int64_t bytes, std::int64_t heads) {
  const auto fit = bytes == 0 ? heads : cache_bytes / bytes;
  return static_cast<int>(fit < 1 ? 1 : fit < heads ? fit : heads);
}
// Clears the counters of jobs that blocks have taken, one thread for each counter.
__global__ void attention_none_taken_kernel(int* taken) { taken[threadIdx.x] = 0; }

// The first key of query i's document and window; a query past the sequence's end counts as its last query. It never
// decreases within a sequence.
template <class Args> __device__ __forceinline__ int first_key(const Args& a, int b, int i) {
  const int query = i < a.sequence ? i : a.sequence - 1;
  const int document = a.document_start[static_cast<std::int64_t>(b) * a.sequence + query], window = query - a.reach;
  return window > document ? window : document;
}

// ---- Tiles in shared memory -----------------------------------------------------------------------------------------
template <int Stages> struct Slot {  // a place in a ring of tiles
  int index = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void step() {
    if (++index == Stages) index = 0, parity ^= 1;
  }
};

// A block's dynamic shared memory from its first multiple of `alignment` on. So a kernel reserves `alignment` bytes
// more.
struct SharedTiles {
  static constexpr int alignment = 1024;
  unsigned char* base;
  std::uint32_t at;
  __device__ __forceinline__ explicit SharedTiles(unsigned char* memory) {
    const std::uint32_t from = shared_address(memory), ahead = (alignment - from % alignment) % alignment;
    base = memory + ahead, at = from + ahead;
  }
};

template <int D> __device__ __forceinline__ void copy_tile(const TensorMap* map, std::uint32_t to, std::uint32_t full,
                                                           int rows, int head, int row, int b) {
  arrive_and_expect(full, rows * D * 2);
#pragma unroll
  for (int c = 0; c < D; c += panel_columns)
    copy_box(to + c / panel_columns * rows * panel_row_bytes, map, full, head * D + c, row, b);
}

// ---- Groups that compute products -----------------------------------------------------------------------------------
struct HopperPlace {
  int group, warp, lane;                                                                    // warp: within the group
  __device__ __forceinline__ int row() const { return 64 * group + 16 * warp + lane / 4; }  // and 8 rows further down
};

__device__ __forceinline__ void release(std::uint32_t empty, const HopperPlace& place) {  // called by a whole warp
  __syncwarp();
  if (place.lane == 0) arrive(empty);
}

template <int N> __device__ __forceinline__ void clear(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = 0;
}

// s[64, N] = q k^T. q begins at row 0 of its descriptor, in a tile of q_rows rows; k is a tile of N rows.
template <int D, int N>
__device__ __forceinline__ void score(float (&s)[N / 2], std::uint64_t q, int q_rows, std::uint64_t k) {
#pragma unroll
  for (int step = 0; step < D / 16; ++step)
    multiply_rows(s, q + channel_step(q_rows, step), k + channel_step(N, step), step != 0);
  commit_products();
}
// o[64, D] += p[64, N] v[N, D].
template <int D, int N>
__device__ __forceinline__ void mix(float (&o)[D / 2], const unsigned (&p)[N / 16][4], std::uint64_t v) {
#pragma unroll
  for (int step = 0; step < N / 16; ++step) multiply_columns(o, p[step], v + row_step(step));
  commit_products();
}

// Narrows the results of a product to the operand `a` of another product.
template <int N> __device__ __forceinline__ void narrow(unsigned (&p)[N / 16][4], const float (&s)[N / 2]) {
#pragma unroll
  for (int step = 0; step < N / 16; ++step)
#pragma unroll
    for (int r = 0; r < 4; ++r) p[step][r] = pack_bf16(s[8 * step + 2 * r], s[8 * step + 2 * r + 1]);
}

// Hides later keys from queries i and i + 8. reach: i minus the key of s[0].
template <int N> __device__ __forceinline__ void hide_later(float (&s)[N], int reach) {
#pragma unroll
  for (int n = 0; n < N / 4; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (8 * n + e % 2 > reach + e / 2 * 8) s[4 * n + e] = -INFINITY;
}

// Hides the keys before the first ones of queries i and i + 8. j: the key of s[0].
template <int N, class Args>
__device__ __forceinline__ void hide_before(float (&s)[N], const Args& a, int b, int i, int j) {
  const int start[2] = {first_key(a, b, i) - j, first_key(a, b, i + 8) - j};
#pragma unroll
  for (int n = 0; n < N / 4; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (8 * n + e % 2 < start[e / 2]) s[4 * n + e] = -INFINITY;
}

// Before, each of four lanes holds word t of four chunks; afterwards lane t holds all of chunk t.
__device__ __forceinline__ void transpose_four(unsigned (&w)[4], int t) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const unsigned got = __shfl_xor_sync(0xffffffffu, (t & 1) != 0 ? w[i] : w[i + 1], 1);
    if ((t & 1) != 0) w[i] = got;
    else w[i + 1] = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned got = __shfl_xor_sync(0xffffffffu, (t & 2) != 0 ? w[i] : w[i + 2], 2);
    if ((t & 2) != 0) w[i] = got;
    else w[i + 2] = got;
  }
}

// Stores this group's row g (half 0) or g + 8 of o to row `row` of x, from column `column` on, 16 bytes for each lane.
// t: lane % 4.
template <int D> __device__ __forceinline__ void put_row(const Mat& x, std::int64_t row, bool there,
                                                         std::int64_t column, int t, const float (&o)[D / 2], int half,
                                                         float factor) {
  b16* to = x.row<b16>(row) + column + 8 * t;
#pragma unroll
  for (int n = 0; n < D / 8; n += 4) {
    unsigned w[4];
#pragma unroll
    for (int c = 0; c < 4; ++c)
      w[c] = pack_bf16(o[4 * (n + c) + 2 * half] * factor, o[4 * (n + c) + 2 * half + 1] * factor);
    transpose_four(w, t);
    if (there) *reinterpret_cast<uint4*>(to + 8 * n) = uint4{w[0], w[1], w[2], w[3]};
  }
}

}  // namespace
}  // namespace trainyard::kernels

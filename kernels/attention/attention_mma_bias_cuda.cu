// The gradient of the bias of positions on tensor cores. A block has a band of 64 distances in one sequence and head.
// It walks the tiles of queries, each with the two tiles of keys at these distances, and recomputes the gradients of
// their scores. These meet in shared memory, where a thread adds up the ones of its distance. So nothing is added
// atomically.
#include "kernels/attention/attention_bias_device.h"
#include "kernels/attention/attention_mma.h"
#include "kernels/attention/attention_mma_device.h"

namespace trainyard::kernels {
namespace {

using GradientRow = float[tile + 1];  // of a tile of queries and keys, in shared memory
template <int D> constexpr int band_bytes = two_pairs_bytes<D> + tile* static_cast<int>(sizeof(GradientRow));
static_assert(band_bytes<64> <= most_bytes<64> && band_bytes<128> <= most_bytes<128>);

// A query of a warp's tile. A query past the sequence's end sees nothing.
struct BandQuery {
  int i;
  Keys keys;
  float lse, delta;
  __device__ __forceinline__ BandQuery(const AttentionBackwardArgs& a, const Position& p, int i)
      : i(i), keys{0, 0}, lse(0), delta(0) {
    if (i >= a.sequence) return;
    const auto head = p.b * a.heads + p.h;
    keys = keys_of(a, p.row0, i);
    lse = a.lse.row<float>(head)[i] * log2_e;
    delta = reinterpret_cast<const float*>(a.scratch)[head * a.sequence + i];
  }
};

// Stores the gradient of the score of a pair, behind the cap; 0 if the query does not see the key. s, dp: the products
// of the pair.
template <bool Drops> __device__ __forceinline__ float band_gradient(const AttentionBackwardArgs& a, const Position& p,
                                                                     const Powers& powers, const BandQuery& query,
                                                                     int j, float s, float dp) {
  if (j < query.keys.lo || j >= query.keys.hi) return 0;
  const auto kept = kept_scales<Drops>(a, p, query.i, j / 2 * 2);
  const float bias = bias_of<float>(a, p.h, query.i, j) * log2_e;
  gradients<Drops, true, true>(powers, query.lse, bias, query.delta, j % 2 == 0 ? kept.v[0] : kept.v[1], s, dp);
  return dp;
}

// c += a . (rows of a tile), for the 16 channels of step k and the blocks of 16 rows [from, to).
template <int D> __device__ __forceinline__ void times_some_rows(float (&c)[tile / 8][4], const unsigned (&a)[4],
                                                                 const b16* rows, int k, const Position& p, int from,
                                                                 int to) {
#pragma unroll
  for (int n = 0; n < tile / 16; ++n) {
    if (n < from || n >= to) continue;
    unsigned b[4];
    load_tiles(b, rows + (16 * n + p.lane / 16 * 8 + p.lane % 8) * pitch<D> + 16 * k + p.lane / 8 % 2 * 8);
    mma_bf16(c[2 * n], a, b[0], b[1]);
    mma_bf16(c[2 * n + 1], a, b[2], b[3]);
  }
}

// Grid: bands of distances, heads, sequences. A warp owns 16 queries of a tile. Shared memory: two pairs of tiles of
// keys and values, and the gradients of a tile. The second tile of keys of a tile of queries is the first of the next.
template <int D, bool Drops> __global__ void __launch_bounds__(threads)
    attention_band_kernel(AttentionBackwardArgs a, float* sequences) {
  TRAINYARD_DYNAMIC_SHARED(memory);
  b16* pairs = reinterpret_cast<b16*>(memory);
  auto* gradient = reinterpret_cast<GradientRow*>(memory + two_pairs_bytes<D>);
  const auto p = position_of(a, blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x), length = static_cast<int>(a.sequence),
            band = static_cast<int>(blockIdx.x) * tile, first = band - (length - 1);
  const auto fetch = [&](int j0, int slot) {
    fetch_pair<D, warps, true>(a, p, j0, pairs + 2 * slot * tile_elements<D>);
  };
  const Powers powers(a);
  float sum = 0;
  const int end = any_at(a, first, tile) ? length : 0;
  if (end > 0) fetch(first, 0), fetch(first + tile, 1);
  for (int i0 = 0, slot = 0; i0 < end; i0 += tile, slot ^= 1) {
    const int own = i0 + 16 * p.warp;
    unsigned q[D / 16][4], dout[D / 16][4];
    fetch_rows<D>(a, a.q, own, p.h * D, p, q);
    fetch_rows<D>(a, a.dout, own, p.h * D, p, dout);
    const BandQuery queries[2] = {{a, p, own + p.g}, {a, p, own + p.g + 8}};
    const int lo = keys_of(a, p.row0, i0).lo, hi = keys_of(a, p.row0, i0 + tile - 1).hi;
    float part = 0;
#pragma unroll
    for (int second = 0; second < 2; ++second, slot ^= 1) {
      const int j0 = i0 + first + second * tile;
      await_copies();
      __syncthreads();
      if (second == 1 && i0 + tile < end) fetch(j0 + tile, slot ^ 1);
      if (j0 >= hi || j0 + tile <= lo) continue;  // the same for all threads
      const b16 *keys = pairs + 2 * slot * tile_elements<D>, *values = keys + tile_elements<D>;
      float s[1][tile / 8][4], dp[1][tile / 8][4];
      clear(s), clear(dp);
      // Of the first tile the band has the keys from the diagonal on, of the second those before it.
      const int from = second == 0 ? p.warp : 0, to = second == 0 ? tile / 16 : p.warp + 1;
#pragma unroll
      for (int k = 0; k < D / 16; ++k) {
        times_some_rows<D>(s[0], q[k], keys, k, p, from, to);
        times_some_rows<D>(dp[0], dout[k], values, k, p, from, to);
      }
      const int before = j0 < 0 ? -1 : j0 / list_tile;  // the tile of a list in which these keys begin
      const unsigned parts[2] = {parts_at(a, p.h, i0 / list_tile, before),
                                 parts_at(a, p.h, i0 / list_tile, before + 1)};
#pragma unroll
      for (int n = 0; n < tile / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const auto& query = queries[e / 2];
          const int k = 8 * n + 2 * p.t + e % 2, j = j0 + k;
          const bool listed = j >= 0 && has_pair(j / list_tile == before ? parts[0] : parts[1], query.i, j);
          gradient[16 * p.warp + p.g + e / 2 * 8][k] =
              listed && n / 2 >= from && n / 2 < to
                  ? band_gradient<Drops>(a, p, powers, query, j, s[0][n][e], dp[0][n][e])
                  : 0.0f;
        }
      __syncthreads();
      if (thread < tile)
        for (int r = second == 0 ? 0 : tile - thread; r < (second == 0 ? tile - thread : tile); ++r)
          part += gradient[r][r + thread - second * tile];
    }
    sum += part;
  }
  if (thread < tile && band + thread < a.d_bias.cols)
    sequences[(p.b * a.heads + p.h) * a.d_bias.cols + band + thread] = sum;
}

template <int D> const char* launch_bands(const AttentionBackwardArgs& a, void* stream) {
  return with_dropout(a, [&]<bool Drops>() {
    TRAINYARD_LAUNCH_SHARED((attention_band_kernel<D, Drops>), band_bytes<D>, grid_of(a, a.d_bias.cols, a.heads, tile),
                            threads, stream, a, bias_of_sequences<float>(a));
    add_bias_of_sequences<float>(a, stream);
    return launch_failure();
  });
}

}  // namespace

const char* gpu::attention_bias_mma(const AttentionBackwardArgs& a, void* stream) {
  return a.head_dim == 64 ? launch_bands<64>(a, stream) : launch_bands<128>(a, stream);
}

}  // namespace trainyard::kernels

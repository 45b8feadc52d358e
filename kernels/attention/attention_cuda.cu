// Attention without tensor cores, for what attention_mma_*_cuda.cu does not take. It uses tiles of 32 queries and
// 32 keys (16 in f64) and an online softmax. Backward recomputes the probabilities twice: by keys for dk and dv, and by
// queries for dq. So nothing is added atomically. Products are in f32 (f64 for f64); head sizes go up to 128. In a tile
// of a list, squares without any listed part are skipped.
#include "kernels/attention/attention_bias_device.h"
#include "kernels/attention/attention_mma.h"
#include "kernels/attention/attention_sees_device.h"
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels {
namespace {

constexpr int most_dim = plan::gpu_head_size_limit, pitch = most_dim + 1, tile_threads = 256;
// By the type of the sums: the tile that fits 48 KiB of shared memory.
template <class F> constexpr int tile_of = sizeof(F) == 8 ? 16 : 32;
template <class F> constexpr int lanes_of = tile_threads / tile_of<F>;  // threads that share a row of a tile
template <class F> constexpr int columns_of = most_dim / lanes_of<F>;   // columns of a row that each of them keeps

template <class F> __device__ F minus_infinity() { return -INFINITY; }

struct Geometry {
  std::int64_t b, h, kv, row0, key_row0;
};
__device__ Geometry geometry_of(const AttentionArgs& a, std::int64_t h) {
  const std::int64_t b = blockIdx.z;
  return {b, h, h / (a.heads / a.kv_heads), b * a.sequence, b * a.keys};
}

// A head of a sequence: columns from `column` on, of the `rows` rows from row0 on.
struct HeadOf {
  const ConstMat& x;
  std::int64_t row0, rows, column;
};
__device__ HeadOf of_queries(const AttentionArgs& a, const Geometry& g, const ConstMat& x) {
  return {x, g.row0, a.sequence, g.h * a.head_dim};
}
__device__ HeadOf of_keys(const AttentionArgs& a, const Geometry& g, const ConstMat& x) {
  return {x, g.key_row0, a.keys, g.kv * a.head_dim};
}
// Loads rows [first, first + tile) of a head into a tile. Rows that it does not have are zero.
template <class T, class F> __device__ void load_tile(const HeadOf& head, int d, std::int64_t first, F (*to)[pitch]) {
  constexpr int tile = tile_of<F>;
  for (int i = static_cast<int>(threadIdx.x); i < tile * d; i += tile_threads) {
    const int r = i / d, c = i % d;
    const bool there = static_cast<std::uint64_t>(first + r) < static_cast<std::uint64_t>(head.rows);  // nor below 0
    to[r][c] = there ? static_cast<F>(widen(head.x.template row<T>(head.row0 + first + r)[head.column + c])) : F(0);
  }
}

// to[i][j] = x_i . y_j. Each thread computes elements of one row, in steps of `lanes`.
template <class F> __device__ void products(const F (*x)[pitch], const F (*y)[pitch], int d, F (*to)[tile_of<F> + 1]) {
  constexpr int tile = tile_of<F>, lanes = lanes_of<F>;
  const int i = static_cast<int>(threadIdx.x) / lanes, j0 = static_cast<int>(threadIdx.x) % lanes;
  for (int j = j0; j < tile; j += lanes) {
    F s = 0;
    for (int c = 0; c < d; ++c) s += x[i][c] * y[j][c];
    to[i][j] = s;
  }
}

// Query i of the sequence at row0. A query past the sequence's end sees nothing.
template <Sees S> struct Query;
template <> struct Query<Sees::earlier> {
  std::int64_t i, begin;
  __device__ Query(const AttentionArgs& a, std::int64_t row0, std::int64_t i)
      : i(i), begin(i < a.sequence ? begin_of(a, row0, static_cast<int>(i)) : i + 1) {}
  __device__ bool sees(std::int64_t j, unsigned) const { return j <= i && j >= begin; }
};
template <> struct Query<Sees::any> {
  std::int64_t i;
  Keys keys;
  __device__ Query(const AttentionArgs& a, std::int64_t row0, std::int64_t i)
      : i(i), keys(i < a.sequence ? keys_of(a, row0, static_cast<int>(i)) : Keys{0, 0}) {}
  __device__ bool sees(std::int64_t j, unsigned parts) const {
    return j >= keys.lo && j < keys.hi && has_pair(parts, i, j);
  }
};

// What a cap leaves of a product of a query and a key, as a share of the cap.
template <class F> __device__ F share_of_cap(const AttentionArgs& a, F product) {
  return tanh_of(product * static_cast<F>(a.scale / a.softcap));
}

// The factor of pair (i, j): 1 without dropout, 0 where it is dropped.
template <class F> __device__ F kept_scale(const AttentionArgs& a, const Geometry& g, std::int64_t i, std::int64_t j) {
  if (a.threshold == 0) return F(1);
  const auto key = a.seed + a.samples[g.b] * 0x9E3779B97F4A7C15ull;
  const auto words = philox_words(key, a.site + static_cast<std::uint64_t>(g.h),
                                  (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>(j / 4));
  const auto keep = sizeof(F) == 8 ? static_cast<F>(1.0 / (1.0 - static_cast<double>(a.threshold) * 0x1p-32))
                                   : static_cast<F>(a.keep_scale);
  return words.w[j % 4] >= a.threshold ? keep : F(0);
}

// The first tile of keys that any query of the tile at i0 sees; the same for all threads.
__device__ std::int64_t first_tile(const AttentionArgs& a, std::int64_t row0, std::int64_t i0, int tile) {
  std::int64_t first = i0;
  for (std::int64_t i = i0; i < i0 + tile && i < a.sequence; ++i) {
    const int begin = begin_of(a, row0, static_cast<int>(i));
    first = begin < first ? begin : first;
  }
  return first / tile * tile;
}

// Whether a tile of a list has any part of the square of queries [i0, i0 + tile) and keys [j0, j0 + tile).
__device__ bool has_square(unsigned parts, std::int64_t i0, std::int64_t j0, int tile) {
  unsigned square = 0;
  for (int r = 0; r < tile / list_part; ++r)
    for (int c = 0; c < tile / list_part; ++c) square |= 1u << part_of(r, c);
  return (parts & square << part_of(static_cast<int>(i0 % list_tile) / list_part,
                                    static_cast<int>(j0 % list_tile) / list_part)) != 0;
}
// Whether any query of this square may see any of its keys, lists aside.
__device__ bool in_reach(const AttentionArgs& a, std::int64_t row0, std::int64_t i0, std::int64_t j0, int tile) {
  const int i = static_cast<int>(i0);
  return i0 < a.sequence && keys_of(a, row0, i).lo < j0 + tile && keys_of(a, row0, i + tile - 1).hi > j0;
}

// Calls visit(j0, parts) for the tiles of keys that any query of [i0, i0 + tile) sees, in ascending order. `parts`
// belong to the list's tile that contains the tile of keys.
template <Sees S, class Visit>
__device__ void over_keys(const AttentionArgs& a, const Geometry& g, std::int64_t i0, int tile, const Visit& visit) {
  if constexpr (S == Sees::earlier) {
    for (auto j0 = first_tile(a, g.row0, i0, tile); j0 < i0 + tile && j0 < a.sequence; j0 += tile)
      visit(j0, every_part);
  } else {
    auto walk = walk_keys(a, g.row0, g.h, static_cast<int>(i0), static_cast<int>(i0) + tile);
    for (auto at = walk.take(a.visibility.by_queries); at.tile >= 0; at = walk.take(a.visibility.by_queries))
      for (std::int64_t j0 = at.tile * list_tile; j0 < (at.tile + 1) * list_tile; j0 += tile)
        if (has_square(at.parts, i0, j0, tile) && in_reach(a, g.row0, i0, j0, tile)) visit(j0, at.parts);
  }
}

// Calls visit(i0, parts) for the tiles of queries that see any of keys [j0, j0 + tile), in ascending order.
template <Sees S, class Visit>
__device__ void over_queries(const AttentionArgs& a, const Geometry& g, std::int64_t j0, int tile, const Visit& visit) {
  if constexpr (S == Sees::earlier) {
    for (auto i0 = j0; i0 < a.sequence; i0 += tile)
      if (first_tile(a, g.row0, i0, tile) < j0 + tile) visit(i0, every_part);
  } else {
    const auto range = queries_of(a, g.row0, static_cast<int>(j0), tile);
    auto walk = walk_of(a, a.visibility.by_keys, g.h, static_cast<int>(j0) / list_tile, range.first, range.end);
    for (auto at = walk.take(a.visibility.by_keys); at.tile >= 0; at = walk.take(a.visibility.by_keys))
      for (std::int64_t i0 = at.tile * list_tile; i0 < (at.tile + 1) * list_tile; i0 += tile)
        if (has_square(at.parts, i0, j0, tile) && in_reach(a, g.row0, i0, j0, tile)) visit(i0, at.parts);
  }
}

// Grid: tiles of queries, heads, sequences.
template <class T, Sees S> __global__ void __launch_bounds__(tile_threads)
    attention_forward_kernel(AttentionForwardArgs a) {
  using F = compute_t<T>;
  constexpr int tile = tile_of<F>, lanes = lanes_of<F>, most_columns = columns_of<F>;
  __shared__ F q[tile][pitch], kv[tile][pitch], s[tile][tile + 1];
  const auto g = geometry_of(a, blockIdx.y);
  const std::int64_t i0 = static_cast<std::int64_t>(blockIdx.x) * tile;
  const int d = static_cast<int>(a.head_dim), row = static_cast<int>(threadIdx.x) / lanes,
            lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t i = i0 + row;
  load_tile<T>(of_queries(a, g, a.q), d, i0, q);
  const Query<S> query(a, g.row0, i);
  F top = minus_infinity<F>(), sum = 0, mixed[most_columns] = {};
  over_keys<S>(a, g, i0, tile, [&](std::int64_t j0, unsigned parts) {
    __syncthreads();
    load_tile<T>(of_keys(a, g, a.k), d, j0, kv);
    __syncthreads();
    products(q, kv, d, s);
    __syncthreads();
    load_tile<T>(of_keys(a, g, a.v), d, j0, kv);
    const bool caps = a.softcap != 0;
    for (int j = lane; caps && j < tile; j += lanes) s[row][j] = share_of_cap(a, s[row][j]);
    const F scale = static_cast<F>(caps ? a.softcap : a.scale);
    // The lanes of a row compute its maximum and sum together.
    F best = top;
    for (int j = lane; j < tile; j += lanes) {
      if (query.sees(j0 + j, parts)) {
        s[row][j] *= scale;
        if (a.bias != nullptr) s[row][j] += bias_of<F>(a, g.h, i, j0 + j);
        best = s[row][j] > best ? s[row][j] : best;
      } else {
        s[row][j] = minus_infinity<F>();
      }
    }
    for (int step = lanes / 2; step > 0; step /= 2) {
      const F other = __shfl_xor_sync(0xffffffffu, best, step);
      best = other > best ? other : best;
    }
    const F base = best == minus_infinity<F>() ? F(0) : best;  // 0 for a query that has seen nothing yet
    const F shrink = exp_of(top - base);
    F part = 0;
    for (int j = lane; j < tile; j += lanes) {
      const F p = s[row][j] == minus_infinity<F>() ? F(0) : exp_of(s[row][j] - base);
      part += p;
      s[row][j] = p == F(0) ? F(0) : p * kept_scale<F>(a, g, i, j0 + j);
    }
    for (int step = lanes / 2; step > 0; step /= 2) part += __shfl_xor_sync(0xffffffffu, part, step);
    sum = sum * shrink + part;
    top = best;
    __syncthreads();
    for (int k = 0; k < most_columns && lane + k * lanes < d; ++k) {
      F acc = mixed[k] * shrink;
      for (int j = 0; j < tile; ++j) acc += s[row][j] * kv[j][lane + k * lanes];
      mixed[k] = acc;
    }
  });
  if (i >= a.sequence) return;
  const bool nothing = sum == F(0);
  T* out = a.out.row<T>(g.row0 + i) + g.h * d;
  for (int k = 0; k < most_columns && lane + k * lanes < d; ++k)
    store(&out[lane + k * lanes], nothing ? F(0) : mixed[k] / sum);
  if (lane == 0)
    a.lse.row<F>(g.b * a.heads + g.h)[i] =
        nothing ? -minus_infinity<F>() : top + static_cast<F>(log(static_cast<double>(sum)));
}

// delta[b * heads + h][i] = out . dout.
template <class T> __global__ void delta_kernel(AttentionBackwardArgs a) {
  using F = compute_t<T>;
  F* delta = reinterpret_cast<F*>(a.scratch);
  TRAINYARD_EACH(n, a.batch * a.heads * a.sequence) {
    const auto i = n % a.sequence, h = n / a.sequence % a.heads, b = n / a.sequence / a.heads;
    const T* out = a.out.row<T>(b * a.sequence + i) + h * a.head_dim;
    const T* dout = a.dout.row<T>(b * a.sequence + i) + h * a.head_dim;
    F sum = 0;
    for (std::int64_t c = 0; c < a.head_dim; ++c) sum += static_cast<F>(widen(out[c])) * static_cast<F>(widen(dout[c]));
    delta[n] = sum;
  }
}

// Where a tile of queries and keys begins, and what lists have of the two tiles of a list in which its keys are: of the
// one with its first key, and of the next.
struct TileAt {
  std::int64_t i0, j0;
  unsigned parts[2];
  __device__ unsigned parts_of(std::int64_t j) const {
    return parts[0] == parts[1] || j / list_tile * list_tile <= j0 ? parts[0] : parts[1];
  }
};

// For one tile: s gets the probabilities p, with dropout applied. dp holds dout . v on entry and gets the gradient of
// the products of queries and keys. OfBias: it gets the gradient of the scores behind their cap.
template <bool Caps, Sees S, bool OfBias, class F>
__device__ void tile_gradients(const AttentionBackwardArgs& a, const Geometry& g, const TileAt& at,
                               F (*s)[tile_of<F> + 1], F (*dp)[tile_of<F> + 1]) {
  constexpr int tile = tile_of<F>, lanes = lanes_of<F>;
  const int row = static_cast<int>(threadIdx.x) / lanes, lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t i = at.i0 + row, head = g.b * a.heads + g.h;
  const F* delta = reinterpret_cast<const F*>(a.scratch) + head * a.sequence;
  const Query<S> query(a, g.row0, i);
  for (int j = lane; j < tile; j += lanes) {
    F p = 0, ds = 0;
    const auto key = at.j0 + j;
    if (key >= 0 && query.sees(key, at.parts_of(key))) {
      const F scale = static_cast<F>(a.scale), kept = kept_scale<F>(a, g, i, key),
              base = a.lse.row<F>(head)[i] - bias_of<F>(a, g.h, i, key);
      if constexpr (Caps) {
        const F share = share_of_cap(a, s[row][j]);
        p = exp_of(share * static_cast<F>(a.softcap) - base);
        ds = p * (dp[row][j] * kept - delta[i]);
        if constexpr (!OfBias) ds = ds * scale * (F(1) - share * share);
      } else {
        p = exp_of(s[row][j] * scale - base);
        ds = p * (dp[row][j] * kept - delta[i]);
        if constexpr (!OfBias) ds = ds * scale;
      }
      p *= kept;
    }
    s[row][j] = p;
    dp[row][j] = ds;
  }
}

// Grid: tiles of keys, key-value heads, sequences. Adds up the queries in ascending head, then in ascending tile.
template <class T, Sees S> __global__ void __launch_bounds__(tile_threads)
    attention_keys_kernel(AttentionBackwardArgs a) {
  using F = compute_t<T>;
  constexpr int tile = tile_of<F>, lanes = lanes_of<F>, most_columns = columns_of<F>;
  __shared__ F x[tile][pitch], y[tile][pitch], s[tile][tile + 1], dp[tile][tile + 1];
  const std::int64_t kv_head = blockIdx.y, group = a.heads / a.kv_heads,
                     j0 = static_cast<std::int64_t>(blockIdx.x) * tile;
  const int d = static_cast<int>(a.head_dim), row = static_cast<int>(threadIdx.x) / lanes,
            lane = static_cast<int>(threadIdx.x) % lanes;
  F dk[most_columns] = {}, dv[most_columns] = {};
  for (std::int64_t m = 0; m < group; ++m) {
    const auto g = geometry_of(a, kv_head * group + m);
    over_queries<S>(a, g, j0, tile, [&](std::int64_t i0, unsigned parts) {
      __syncthreads();
      load_tile<T>(of_queries(a, g, a.q), d, i0, x);
      load_tile<T>(of_keys(a, g, a.k), d, j0, y);
      __syncthreads();
      products(x, y, d, s);
      __syncthreads();
      load_tile<T>(of_queries(a, g, a.dout), d, i0, x);
      load_tile<T>(of_keys(a, g, a.v), d, j0, y);
      __syncthreads();
      products(x, y, d, dp);
      __syncthreads();
      const TileAt at{i0, j0, {parts, parts}};
      if (a.softcap != 0) tile_gradients<true, S, false>(a, g, at, s, dp);
      else tile_gradients<false, S, false>(a, g, at, s, dp);
      load_tile<T>(of_queries(a, g, a.q), d, i0, y);
      __syncthreads();
      for (int k = 0; k < most_columns && lane + k * lanes < d; ++k) {
        const int c = lane + k * lanes;
        F v = dv[k], w = dk[k];
        for (int i = 0; i < tile; ++i) v += s[i][row] * x[i][c], w += dp[i][row] * y[i][c];
        dv[k] = v, dk[k] = w;
      }
    });
  }
  if (j0 + row >= a.keys) return;
  const auto at = static_cast<std::int64_t>(blockIdx.z) * a.keys + j0 + row;
  for (int k = 0; k < most_columns && lane + k * lanes < d; ++k) {
    store(a.dk.row<T>(at) + kv_head * d + lane + k * lanes, dk[k]);
    store(a.dv.row<T>(at) + kv_head * d + lane + k * lanes, dv[k]);
  }
}

// Grid: tiles of queries, heads, sequences.
template <class T, Sees S> __global__ void __launch_bounds__(tile_threads)
    attention_queries_kernel(AttentionBackwardArgs a) {
  using F = compute_t<T>;
  constexpr int tile = tile_of<F>, lanes = lanes_of<F>, most_columns = columns_of<F>;
  __shared__ F x[tile][pitch], y[tile][pitch], s[tile][tile + 1], dp[tile][tile + 1];
  const auto g = geometry_of(a, blockIdx.y);
  const std::int64_t i0 = static_cast<std::int64_t>(blockIdx.x) * tile;
  const int d = static_cast<int>(a.head_dim), row = static_cast<int>(threadIdx.x) / lanes,
            lane = static_cast<int>(threadIdx.x) % lanes;
  F dq[most_columns] = {};
  over_keys<S>(a, g, i0, tile, [&](std::int64_t j0, unsigned parts) {
    __syncthreads();
    load_tile<T>(of_queries(a, g, a.dout), d, i0, x);
    load_tile<T>(of_keys(a, g, a.v), d, j0, y);
    __syncthreads();
    products(x, y, d, dp);
    __syncthreads();
    load_tile<T>(of_queries(a, g, a.q), d, i0, x);
    load_tile<T>(of_keys(a, g, a.k), d, j0, y);
    __syncthreads();
    products(x, y, d, s);
    __syncthreads();
    const TileAt at{i0, j0, {parts, parts}};
    if (a.softcap != 0) tile_gradients<true, S, false>(a, g, at, s, dp);
    else tile_gradients<false, S, false>(a, g, at, s, dp);
    __syncthreads();
    for (int k = 0; k < most_columns && lane + k * lanes < d; ++k) {
      F acc = dq[k];
      for (int j = 0; j < tile; ++j) acc += dp[row][j] * y[j][lane + k * lanes];
      dq[k] = acc;
    }
  });
  if (i0 + row >= a.sequence) return;
  for (int k = 0; k < most_columns && lane + k * lanes < d; ++k)
    store(a.dq.row<T>(g.row0 + i0 + row) + g.h * d + lane + k * lanes, dq[k]);
}

// Grid: bands of `tile` distances, heads, sequences. Each tile of queries has two tiles of keys at these distances. The
// gradients of their scores meet in shared memory, where a thread adds up the ones of its distance.
template <class T> __global__ void __launch_bounds__(tile_threads)
    attention_bias_kernel(AttentionBackwardArgs a, compute_t<T>* sequences) {
  using F = compute_t<T>;
  constexpr int tile = tile_of<F>;
  __shared__ F x[tile][pitch], y[tile][pitch], s[tile][tile + 1], dp[tile][tile + 1];
  const auto g = geometry_of(a, blockIdx.y);
  const int d = static_cast<int>(a.head_dim), thread = static_cast<int>(threadIdx.x);
  const auto band = static_cast<std::int64_t>(blockIdx.x) * tile, first = band - (a.sequence - 1);
  F sum = 0;
  const auto end = any_at(a, first, tile) ? a.sequence : 0;
  for (std::int64_t i0 = 0; i0 < end; i0 += tile) {
    F part = 0;
    for (int second = 0; second < 2; ++second) {
      const auto j0 = i0 + first + second * tile;
      if (!in_reach(a, g.row0, i0, j0, tile)) continue;  // the same for all threads
      __syncthreads();
      load_tile<T>(of_queries(a, g, a.q), d, i0, x);
      load_tile<T>(of_keys(a, g, a.k), d, j0, y);
      __syncthreads();
      products(x, y, d, s);
      __syncthreads();
      load_tile<T>(of_queries(a, g, a.dout), d, i0, x);
      load_tile<T>(of_keys(a, g, a.v), d, j0, y);
      __syncthreads();
      products(x, y, d, dp);
      __syncthreads();
      const int queries = static_cast<int>(i0) / list_tile, keys = j0 < 0 ? -1 : static_cast<int>(j0) / list_tile;
      const TileAt at{i0, j0, {parts_at(a, g.h, queries, keys), parts_at(a, g.h, queries, keys + 1)}};
      if (a.softcap != 0) tile_gradients<true, Sees::any, true>(a, g, at, s, dp);
      else tile_gradients<false, Sees::any, true>(a, g, at, s, dp);
      __syncthreads();
      // Of the first tile the band has the keys from the diagonal on, of the second those before it.
      if (thread < tile)
        for (int r = second == 0 ? 0 : tile - thread; r < (second == 0 ? tile - thread : tile); ++r)
          part += dp[r][r + thread - second * tile];
    }
    sum += part;
  }
  if (thread < tile && band + thread < a.d_bias.cols)
    sequences[(g.b * a.heads + g.h) * a.d_bias.cols + band + thread] = sum;
}

template <class Body> const char* with_head(const AttentionArgs& a, const Body& body) {
  if (a.head_dim > most_dim) return "head sizes above 128 are not built for GPUs";
  with_type(a.q.type, body);
  return launch_failure();
}

// Blocks of a tile of `length` rows, for each head and sequence.
template <class T> dim3 grid_of(const AttentionArgs& a, std::int64_t length, std::int64_t heads) {
  constexpr int tile = tile_of<compute_t<T>>;
  return dim3(static_cast<unsigned>((length + tile - 1) / tile), static_cast<unsigned>(heads),
              static_cast<unsigned>(a.batch));
}

template <Sees S> const char* forward_plain(const AttentionForwardArgs& a, void* stream) {
  return with_head(a, [&]<class T>(T*) {
    TRAINYARD_LAUNCH((attention_forward_kernel<T, S>), true, grid_of<T>(a, a.sequence, a.heads), tile_threads, stream,
                     a);
  });
}
template <Sees S> const char* backward_plain(const AttentionBackwardArgs& a, void* stream) {
  return with_head(a, [&]<class T>(T*) {
    TRAINYARD_LAUNCH(delta_kernel<T>, false, blocks_for(a.batch * a.heads * a.sequence), 256, stream, a);
    TRAINYARD_LAUNCH((attention_keys_kernel<T, S>), true, grid_of<T>(a, a.keys, a.kv_heads), tile_threads, stream, a);
    TRAINYARD_LAUNCH((attention_queries_kernel<T, S>), true, grid_of<T>(a, a.sequence, a.heads), tile_threads, stream,
                     a);
    if (a.d_bias.empty()) return;
    TRAINYARD_LAUNCH((attention_bias_kernel<T>), true, grid_of<T>(a, a.d_bias.cols, a.heads), tile_threads, stream, a,
                     bias_of_sequences<compute_t<T>>(a));
    add_bias_of_sequences<compute_t<T>>(a, stream);
  });
}

}  // namespace

const char* gpu::attention_forward(const AttentionForwardArgs& a, void* stream) {
#ifdef TRAINYARD_HOPPER  // defined if the module contains the source of the Hopper kernels
  const char* failure = nullptr;
  if (attention_forward_hopper(a, stream, failure)) return failure;
#endif
  if (attention_mma_fits(a)) return attention_forward_mma(a, stream);
  return sees_of(a) == Sees::earlier ? forward_plain<Sees::earlier>(a, stream) : forward_plain<Sees::any>(a, stream);
}

const char* gpu::attention_backward(const AttentionBackwardArgs& a, void* stream) {
#ifdef TRAINYARD_HOPPER
  const char* failure = nullptr;
  if (attention_backward_hopper(a, stream, failure)) return failure;
#endif
  if (attention_mma_fits(a)) return attention_backward_mma(a, stream);
  return sees_of(a) == Sees::earlier ? backward_plain<Sees::earlier>(a, stream) : backward_plain<Sees::any>(a, stream);
}

}  // namespace trainyard::kernels

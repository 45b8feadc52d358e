// Tiles of attention on the CPU: visibility, packed rows, products, dropout. Included only by attention_*_cpu.cpp, once
// per instruction set.
#pragma once

#include "kernels/attention/attention_args.h"
#include "kernels/bf16_tiles_cpu.h"
#include "kernels/philox_words.h"
#include "kernels/strips_cpu.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/tile_list.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

constexpr int tile = static_cast<int>(plan::attention_tile), part = static_cast<int>(plan::attention_part);
constexpr int parts_of_row = tile / part;
constexpr unsigned whole = plan::whole_tile;

inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
inline int64_t most(int64_t x, int64_t y) { return x < y ? y : x; }
inline int64_t tiles_of(const AttentionArgs& a) { return (a.sequence + tile - 1) / tile; }
inline int64_t key_tiles_of(const AttentionArgs& a) { return (a.keys + tile - 1) / tile; }

// A bump pointer over one thread's part of the scratch, or over the shared memory of one key-value head.
struct Bump {
  char* at;
  template <class T = float> T* take(int64_t elements) {
    T* p = reinterpret_cast<T*>(at);
    at += base::aligned(elements * static_cast<int64_t>(sizeof(T)));
    return p;
  }
};

// The keys [lo, hi) that each query of a tile may see by causality, window and document. lo = hi = 0 for a query that
// sees none, and for rows past the sequence's end.
struct Limits {
  std::int32_t lo[tile], hi[tile];
  int rows = 0;                    // queries of the tile
  std::int32_t least_lo, most_lo;  // of the queries that see something; least_lo is 0x7fffffff if none does
  std::int32_t least_hi, most_hi;  // least_hi: of all queries; most_hi: of those that see something
  std::int32_t part_lo[parts_of_row], part_hi[parts_of_row];  // least lo and greatest hi in each part; 0, 0 if none
  // Tiles of keys that any of these queries sees: [first, end).
  int64_t first() const { return most_hi == 0 ? 0 : least_lo / tile; }
  int64_t end() const { return (most_hi + tile - 1) / tile; }
  bool sees_all(int64_t j0) const { return most_lo <= j0 && least_hi >= j0 + tile; }
  // Parts of the tile of keys at j0 that some query of their row of parts may see. Within a row they are neighbours, so
  // missing parts are zeros before or behind a sum. Zeros before a sum matter to products by tiles: such a product
  // takes two parts at a time, from the first part that exists. The row of parts alone determines that part.
  unsigned seen(int64_t j0) const {
    if (sees_all(j0)) return whole;
    unsigned parts = 0;
    for (int r = 0; r < parts_of_row; ++r)
      for (int64_t c = most(part_lo[r] - j0, 0) / part; c * part < least(part_hi[r] - j0, tile); ++c)
        parts |= 1u << (parts_of_row * r + c);
    return parts;
  }
};

inline Limits limits_of(const AttentionArgs& a, int64_t b, int64_t i0) {
  Limits l;
  l.rows = static_cast<int>(least(tile, a.sequence - i0));
  l.least_lo = l.least_hi = 0x7fffffff, l.most_lo = l.most_hi = 0;
  for (int r = 0; r < tile; ++r) l.lo[r] = l.hi[r] = 0;
  for (int r = 0; r < parts_of_row; ++r) l.part_lo[r] = l.part_hi[r] = 0;
  for (int r = 0; r < l.rows; ++r) {
    const int64_t at = b * a.sequence + i0 + r;
    const int64_t start = most(most(0, a.document_start[at]), i0 + r - a.reach);
    int64_t end = a.visibility.causal ? i0 + r + 1 : least(a.keys, i0 + r + a.reach + 1);
    if (a.key_end != nullptr) end = least(end, a.key_end[at]);
    if (end > start) {
      l.lo[r] = static_cast<std::int32_t>(start), l.hi[r] = static_cast<std::int32_t>(end);
      if (l.lo[r] < l.least_lo) l.least_lo = l.lo[r];
      if (l.lo[r] > l.most_lo) l.most_lo = l.lo[r];
      if (l.hi[r] > l.most_hi) l.most_hi = l.hi[r];
      auto &part_lo = l.part_lo[r / part], &part_hi = l.part_hi[r / part];
      if (part_hi == 0 || l.lo[r] < part_lo) part_lo = l.lo[r];
      if (l.hi[r] > part_hi) part_hi = l.hi[r];
    }
    if (l.hi[r] < l.least_hi) l.least_hi = l.hi[r];
  }
  return l;
}

// The entries of tile `t` in a list, for head h.
struct Entries {
  int64_t begin, end;
};
inline Entries entries_of(const AttentionArgs& a, const TileView& list, int64_t h, int64_t t) {
  const auto row = (list.heads == 1 ? 0 : (a.visibility.first_head + h) * list.tiles) + t;
  return {list.begin[row], list.begin[row + 1]};
}

// Calls visit(j, parts) for every tile of keys in [first, end) that the query tile sees, in ascending order.
template <class Visit>
void over_keys(const AttentionArgs& a, int64_t h, int64_t i, int64_t first, int64_t end, const Visit& visit) {
  if (a.visibility.by_queries.begin == nullptr) {
    for (int64_t j = first; j < end; ++j) visit(j, whole);
    return;
  }
  const auto e = entries_of(a, a.visibility.by_queries, h, i);
  for (int64_t n = e.begin; n < e.end; ++n) {
    const int64_t j = a.visibility.by_queries.other[n];
    if (j >= first && j < end) visit(j, static_cast<unsigned>(a.visibility.by_queries.parts[n]));
  }
}

// Calls visit(i, parts) for every tile of queries that may see the tile of keys j, in ascending order.
template <class Visit> void over_queries(const AttentionArgs& a, int64_t h, int64_t j, const Visit& visit) {
  const int64_t tiles = tiles_of(a);
  if (a.visibility.by_keys.begin == nullptr) {
    for (int64_t i = a.visibility.causal ? j : 0; i < tiles; ++i) visit(i, whole);
    return;
  }
  const auto e = entries_of(a, a.visibility.by_keys, h, j);
  for (int64_t n = e.begin; n < e.end; ++n)
    if (a.visibility.by_keys.other[n] < tiles)
      visit(a.visibility.by_keys.other[n], static_cast<unsigned>(a.visibility.by_keys.parts[n]));
}

inline bool has_part(unsigned parts, int query_part, int key_part) {
  return (parts >> (parts_of_row * query_part + key_part) & 1u) != 0;
}
// Calls run(from, to) for each run [from, to) of neighbouring parts for which there(part) holds.
template <class There, class Run> void over_runs(const There& there, const Run& run) {
  for (int from = 0; from < parts_of_row;) {
    if (!there(from)) {
      ++from;
      continue;
    }
    int to = from + 1;
    while (to < parts_of_row && there(to)) ++to;
    run(from, to);
    from = to;
  }
}

// Rows of a head are far apart in memory, where no hardware prefetcher expects them. So they are prefetched `ahead`
// rows early.
constexpr int64_t ahead = 8;
template <class T, bool Write = false> void fetch(const ConstMat& x, int64_t row, int64_t column, int64_t d) {
  const auto* at = reinterpret_cast<const char*>(x.row<T>(row < x.rows ? row : x.rows - 1) + column);
  for (int64_t byte = 0; byte < d * static_cast<int64_t>(sizeof(T)); byte += 64) __builtin_prefetch(at + byte, Write);
}

// Packs `have` rows of a head, times `scale`, as tile rows of dw elements. Missing rows and columns are zero.
template <class T> void pack_rows(const ConstMat& x, int64_t row0, int64_t column, int64_t have, int64_t d, int64_t dw,
                                  float scale, float* __restrict out) {
  for (int64_t r = 0; r < have; ++r) {
    const T* from = x.row<T>(row0 + r) + column;
    float* to = out + r * dw;
    fetch<T>(x, row0 + r + ahead, column, d);
    over_strips<T>(d, [&](int64_t c0, int64_t m) {
      const StripIn<T> x_strip(from + c0, m);
      float* strip_to = to + c0;
#pragma omp simd
      for (int64_t c = 0; c < m; ++c) strip_to[c] = x_strip[c] * scale;
    });
    for (int64_t c = d; c < dw; ++c) to[c] = 0;
  }
  if (have < tile) set_zero(out + have * dw, (tile - have) * dw);
}

// out[c] = f(in[c]) for c in [0, d), rounded once.
template <class T, class F>
inline __attribute__((always_inline)) void put_row(int64_t d, T* out, const float* in, const F& f) {
  over_strips<T>(
      d, [&](int64_t c0, int64_t m) __attribute__((always_inline)) {
        StripOut<T> to(out + c0, m);
        const float* from = in + c0;
        for (int64_t c = 0; c < m; ++c) to.put(c, f(from[c]));
        to.finish();
      });
}

inline IntVec same(std::int32_t x) { return IntVec{} + x; }

// For paired operands: packs tile rows of dw / 2 words; a word holds two neighbours of a row.
inline void pack_row_words(const ConstMat& x, int64_t row0, int64_t column, int64_t have, int64_t d, int64_t dw,
                           float* __restrict out) {
  set_zero(out, tile * dw / 2);
  for (int64_t r = 0; r < have; ++r) {
    fetch<b16>(x, row0 + r + ahead, column, d);
    copy_elements(reinterpret_cast<b16*>(out + r * (dw / 2)), x.row<b16>(row0 + r) + column, d);
  }
}
// For paired operands: packs tile / 2 rows of dw words; a word holds an element of each of two neighbouring rows.
inline void pack_column_words(const ConstMat& x, int64_t row0, int64_t column, int64_t have, int64_t d, int64_t dw,
                              float* __restrict out) {
  for (int64_t r = 0; r < tile; r += 2, out += dw) {
    const b16* first = r < have ? x.row<b16>(row0 + r) + column : nullptr;
    const b16* second = r + 1 < have ? x.row<b16>(row0 + r + 1) + column : nullptr;
    fetch<b16>(x, row0 + r + ahead, column, d), fetch<b16>(x, row0 + r + 1 + ahead, column, d);
    if (second != nullptr) {
      for (int64_t c = 0; c < d; ++c) out[c] = pair_of(first[c], second[c]);
    } else {
      for (int64_t c = 0; c < d; ++c) out[c] = pair_of(first == nullptr ? b16{0} : first[c], {0});
    }
    for (int64_t c = d; c < dw; ++c) out[c] = 0;
  }
}

// Rounds rows [r0, r1) of a tile in place to words of two neighbouring rows each, stored from row r0 / 2 on. Rows
// before r0 must be done already.
inline void round_rows(float* tile_rows, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
  for (int64_t r = r0; r < r1; r += 2)
    for (int64_t c = c0; c < c1; c += lanes)
      put(tile_rows + r / 2 * tile + c,
          rounded_word(load(tile_rows + r * tile + c), load(tile_rows + (r + 1) * tile + c)));
}
// Rounds rows [r0, r1) of a tile to rows of tile / 2 words; a word holds two neighbouring columns.
inline void round_columns(const float* tile_rows, int64_t r0, int64_t r1, int64_t c0, int64_t c1, float* out) {
  for (int64_t r = r0; r < r1; ++r) {
    auto* to = reinterpret_cast<char*>(out + r * (tile / 2) + c0 / 2);
    for (int64_t c = c0; c < c1; c += lanes, to += sizeof(Vec) / 2) {
      const Halves halves = rounded(load(tile_rows + r * tile + c));
      memcpy(to, &halves, sizeof halves);
    }
  }
}

// A tile of rows in f32: read in place, or packed into `room` if the rows cannot be used as they are.
struct Rows {
  const float* first;
  int64_t pitch;
};
template <class T>
Rows rows_of(const ConstMat& x, int64_t row0, int64_t column, int64_t have, int64_t d, int64_t dw, float* room) {
  if (sizeof(T) == sizeof(float) && have == tile && d == dw)
    return {reinterpret_cast<const float*>(x.row<T>(row0) + column), x.pitch};
  pack_rows<T>(x, row0, column, have, d, dw, 1, room);
  return {room, dw};
}

// Transposes a tile of packed rows by squares of 4: out[c][r], dw rows.
inline void turn(const float* __restrict rows, int64_t dw, float* __restrict out) {
  for (int64_t c = 0; c < dw; c += 4)
    for (int64_t r = 0; r < tile; r += 4) {
      __m128 x[4];
      for (int n = 0; n < 4; ++n) x[n] = _mm_loadu_ps(rows + (r + n) * dw + c);
      _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
      for (int n = 0; n < 4; ++n) _mm_storeu_ps(out + (c + n) * tile + r, x[n]);
    }
}

// How products of queries and keys become scores. With a cap, scores are cap tanh(inner product), without a cap but
// with a bias of positions inner product. The bias is added to that.
struct Scores {
  float factor;          // that products still need: queries of paired operands are packed without it
  float inner, cap = 0;  // cap 0: there is none
};
template <class T> Scores scores_of(const AttentionArgs& a) {
  const float factor = paired<T> ? static_cast<float>(a.scale) : 1.0f;
  if (a.softcap == 0) return a.bias == nullptr ? Scores{factor, 0} : Scores{1, factor};
  return {1, static_cast<float>((paired<T> ? a.scale : 1.0) / a.softcap), static_cast<float>(a.softcap)};
}

// The bias of positions in a tile: at(k - q) is for query q and key k of the tile. Where queries or keys end, it is 0.
// Forward reads registers of queries, whose distances descend, so it has the values in reverse: at(q - k).
struct TileBias {
  alignas(64) float values[2 * tile];
  const float* at(int64_t distance) const { return values + distance + (tile - 1); }
};
template <bool reverse> void take_bias(const AttentionArgs& a, int64_t h, int64_t i0, int64_t j0, TileBias* to) {
  const int64_t distances = a.sequence + a.keys - 1, first = j0 - i0 + a.sequence - 1;
  const float* from = static_cast<const float*>(a.bias) + h * distances;
  for (int64_t n = 0; n < 2 * tile; ++n) {
    const int64_t index = first + (reverse ? tile - 1 - n : n - (tile - 1));
    to->values[n] = index >= 0 && index < distances ? from[index] : 0.0f;
  }
}

// Scores of keys in [lo, hi); minus infinity for other keys.
inline Vec within(Vec scores, IntVec keys, IntVec lo, IntVec hi) {
  return ((keys >= lo) & (keys < hi)) ? scores : broadcast(-__builtin_inff());
}

#if defined(TRAINYARD_BF16_TILES)
// Computes a row of four tiles, 16 x 64 sums, at a time.
template <bool Across> void tiles_product(int64_t rows, int64_t columns, int64_t words, const float* a, int64_t a_row,
                                          int64_t a_step, const float* b, int64_t b_pitch, float* c, int64_t c_pitch,
                                          bool add) {
  constexpr int64_t wide = 4 * tile_side;
  alignas(64) float left[tile_side * tile_side], right[tile_side * tile_side], sums[tile_side * wide];
  Tiles tiles;
  for (int64_t i = 0; i < rows; i += tile_side)
    for (int64_t j = 0; j < columns; j += wide) {
      const int64_t there = least(columns - j, wide);
      // Calls one<t>() for each tile of 16 columns that exists.
      const auto each = [&](const auto& one) {
        one.template operator()<0>();
        if (there > tile_side) one.template operator()<1>();
        if (there > 2 * tile_side) one.template operator()<2>();
        if (there > 3 * tile_side) one.template operator()<3>();
      };
      each([&]<int t>() { tiles.clear<t>(); });
      for (int64_t q = 0; q < words; q += tile_side) {
        const int64_t count = least(words - q, tile_side);
        const float* from = a + i * (Across ? 1 : a_row) + q * a_step;
        TileRows x;
        if constexpr (Across) {
          turn_tile([&](int w, int r) { return w < count ? load(from + w * a_step + r) : zero(); }, left);
          x = {left, tile_side};
        } else {
          x = whole_tile_of(from, a_row, tile_side, count, left);
        }
        tiles.load<4>(x.first, x.pitch);
        each([&]<int t>() {
          const auto y = whole_tile_of(b + q * b_pitch + j + t * tile_side, b_pitch, count, tile_side, right);
          tiles.load<5>(y.first, y.pitch);
          tiles.multiply<t, 4, 5>();
        });
      }
      each([&]<int t>() { tiles.save<t>(sums + t * tile_side, wide); });
      for (int64_t r = 0; r < tile_side; ++r)
        for (int64_t e = 0; e < there; e += lanes) {
          float* to = c + (i + r) * c_pitch + j + e;
          const Vec sum = load(sums + r * wide + e);
          put(to, add ? plus(load(to), sum) : sum);
        }
    }
}
#endif

// Rows, and vectors of columns, that a product keeps in registers.
#if defined(__AVX512F__)
constexpr int product_rows = 8, product_vectors = 2;
#elif defined(__AVX2__)
constexpr int product_rows = 4, product_vectors = 3;
#else
constexpr int product_rows = 4, product_vectors = 2;
#endif

template <class T, int V, bool Across>
inline __attribute__((always_inline)) void rows_product(int64_t words, const float* a, int64_t a_row, int64_t a_step,
                                                        const float* b, int64_t b_pitch, float* c, int64_t c_pitch,
                                                        bool add) {
  Vec acc[product_rows][V];
#pragma GCC unroll 8
  for (int i = 0; i < product_rows; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) acc[i][v] = zero();
  for (int64_t k = 0; k < words; ++k) {
    Vec bv[V];
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) bv[v] = load(b + v * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < product_rows; ++i) {
      const Vec av = broadcast(a[Across ? i : i * a_row]);
#pragma GCC unroll 3
      for (int v = 0; v < V; ++v)
        acc[i][v] = paired<T> ? multiply_pairs(av, bv[v], acc[i][v]) : fma(av, bv[v], acc[i][v]);
    }
    a += a_step, b += b_pitch;
  }
#pragma GCC unroll 8
  for (int i = 0; i < product_rows; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      float* to = c + i * c_pitch + v * lanes;
      put(to, add ? plus(load(to), acc[i][v]) : acc[i][v]);
    }
}

// c[rows, columns] (+)= sum over words k of a(row, k) b[k][column]. `rows` and `columns` are multiples of a part. The
// sum over all words starts from zero and is then added to c. Across: rows of `a` are neighbours in memory (a_row is
// 1). T is the type of attention's operands, which determines the steps of a word (kernels/pack_cpu.h).
template <class T, bool Across> void tile_product(int64_t rows, int64_t columns, int64_t words, const float* a,
                                                  int64_t a_row, int64_t a_step, const float* b, int64_t b_pitch,
                                                  float* c, int64_t c_pitch, bool add) {
#if defined(TRAINYARD_BF16_TILES)
  if constexpr (tiled<T>)
    return tiles_product<Across>(rows, columns, words, a, a_row, a_step, b, b_pitch, c, c_pitch, add);
#endif
  int64_t j = 0;
  const auto all_rows = [&]<int V>() __attribute__((always_inline)) {
    for (int64_t i = 0; i < rows; i += product_rows)
      rows_product<T, V, Across>(words, a + (Across ? i : i * a_row), a_row, a_step, b + j, b_pitch,
                                 c + i * c_pitch + j, c_pitch, add);
    j += V * lanes;
  };
  while (j + product_vectors * lanes <= columns) all_rows.template operator()<product_vectors>();
  if (product_vectors > 2 && j + 2 * lanes <= columns) all_rows.template operator()<2>();
  if (j < columns) all_rows.template operator()<1>();
}

struct Drop {
  std::uint32_t threshold;
  float scale;
  std::uint64_t key, site;
};

inline Drop drop_of(const AttentionArgs& a, int64_t b, int64_t h) {
  const std::uint64_t sample = a.threshold != 0 ? a.samples[b] : 0;
  return {a.threshold, a.keep_scale, a.seed + sample * 0x9E3779B97F4A7C15ull, a.site + static_cast<std::uint64_t>(h)};
}

inline Words drop_words(const Drop& d, int64_t i, int64_t j) {  // the words of keys j / 4 * 4 .. + 3
  return philox_words(d.key, d.site, (static_cast<std::uint64_t>(i) << 32) + static_cast<std::uint64_t>(j / 4));
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

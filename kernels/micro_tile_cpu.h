// Register tiles of the matrix product. Included only by *_cpu.cpp, once per instruction set.
#pragma once

#include "kernels/bf16_tiles_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

#if defined(TRAINYARD_BF16_TILES)
constexpr int mr = 2 * tile_side;
#elif defined(__AVX512F__)
constexpr int mr = 14;
#elif defined(__AVX2__)
constexpr int mr = 6;
#else
constexpr int mr = 4;
#endif
#if defined(TRAINYARD_BF16_TILES)
constexpr int nr = 2 * tile_side, vectors = nr / lanes;
#else
constexpr int vectors = 2, nr = lanes * vectors;
#endif

// Calls end(acc) with a panel * b panel, summed over k steps. The `a` panel has k groups of mr values; the b panel has
// k groups of nr values. By pairs, a group has two steps and each value holds both; if k is odd, the last group has a
// step of zeros. By tiles, the `a` panel has chunks of 16 such words of its `rows` rows, row by row, and only these
// rows are computed. Otherwise the panel holds all mr rows, and the first `made` rows are computed.
template <class T, int made, class End>
inline __attribute__((always_inline)) void micro_product(int64_t k, const float* __restrict a,
                                                         [[maybe_unused]] int64_t rows, const float* __restrict b,
                                                         const End& end) {
#if defined(TRAINYARD_BF16_TILES)
  static_assert(tiled<T>);
  alignas(64) float room[tile_side * tile_side];
  const int64_t words = (k + 1) / 2, below = rows - tile_side;
  Tiles tiles;
  tiles.clear<0>(), tiles.clear<1>(), tiles.clear<2>(), tiles.clear<3>();
  for (int64_t q = 0; q < words; q += tile_side) {
    const int64_t count = words - q < tile_side ? words - q : tile_side;
    const auto load = [&]<int t>(const float* from, int64_t pitch, int64_t r, int64_t w) {
      const auto whole = whole_tile_of(from, pitch, r, w, room);
      tiles.load<t>(whole.first, whole.pitch);
    };
    load.template operator()<4>(a, count, rows, count);
    load.template operator()<6>(b, nr, count, tile_side);
    load.template operator()<7>(b + tile_side, nr, count, tile_side);
    tiles.multiply<0, 4, 6>(), tiles.multiply<1, 4, 7>();
    if (below > 0) {
      load.template operator()<5>(a + tile_side * count, count, below, count);
      tiles.multiply<2, 5, 6>(), tiles.multiply<3, 5, 7>();
    }
    a += rows * count, b += nr * count;
  }
  Vec acc[mr][vectors];
  float* const sums = reinterpret_cast<float*>(acc);
  tiles.save<0>(sums, nr), tiles.save<1>(sums + tile_side, nr);
  if (below > 0) tiles.save<2>(sums + tile_side * nr, nr), tiles.save<3>(sums + tile_side * nr + tile_side, nr);
  end(acc);
#else
  Vec acc[mr][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < made; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) acc[i][j] = zero();
  for (int64_t p = 0; p < words_of<T>(k); ++p) {
    Vec bv[vectors];
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) bv[j] = load(b + j * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < made; ++i) {
      const Vec av = broadcast(a[i]);
#pragma GCC unroll 8
      for (int j = 0; j < vectors; ++j)
        acc[i][j] = paired<T> ? multiply_pairs(av, bv[j], acc[i][j]) : fma(av, bv[j], acc[i][j]);
    }
    a += mr;
    b += nr;
  }
  end(acc);
#endif
}

// The number of rows of sums that micro_product computes.
template <class T, int made> inline int sums_of(int64_t rows) { return tiled<T> ? static_cast<int>(rows) : made; }

// c[sums_of(rows), nr] (+)= a panel * b panel.
template <class T> inline __attribute__((always_inline)) void micro_tile(int64_t k, const float* __restrict a,
                                                                         int64_t rows, const float* __restrict b,
                                                                         float* c, int64_t pitch, int add) {
  micro_product<T, mr>(
      k, a, rows, b, [&](Vec(&acc)[mr][vectors]) __attribute__((always_inline)) {
        const int there = sums_of<T, mr>(rows);
#pragma GCC unroll 16
        for (int i = 0; i < there; ++i)
#pragma GCC unroll 8
          for (int j = 0; j < vectors; ++j) {
            float* to = c + i * pitch + j * lanes;
            put(to, add ? plus(load(to), acc[i][j]) : acc[i][j]);
          }
      });
}

// Packs a panel of mr rows at `from`, of which `have` exist, as the left operand of micro_product. pack_left_across:
// steps of the sum are neighbours in memory, and rows are `pitch` elements apart. pack_left_along: rows are neighbours,
// and steps are `pitch` elements apart.
template <class T> void pack_left_across(const T* from, int64_t pitch, int64_t have, int64_t kb, float* out) {
#if defined(TRAINYARD_BF16_TILES)
  const int64_t rows = have < mr ? have : mr, whole = kb / 2, words = words_of<T>(kb);
  for (int64_t q = 0; q < words; q += tile_side) {
    const int64_t count = words - q < tile_side ? words - q : tile_side;
    for (int64_t r = 0; r < rows; ++r, out += count) {
      const T* row = from + r * pitch + 2 * q;
      if (q + tile_side <= whole) memcpy(out, row, tile_side * sizeof(float));
      else
        for (int64_t w = 0; w < count; ++w) out[w] = word_of(row + 2 * w, 1, q + w < whole);
    }
  }
#else
  pack_across<mr>(from, pitch, have, kb, out);
#endif
}
template <class T>
void pack_left_along(const T* from, int64_t pitch, int64_t have, int64_t panels, int64_t kb, float* out) {
#if defined(TRAINYARD_BF16_TILES)
  const int64_t whole = kb / 2, words = words_of<T>(kb);
  for (int64_t q = 0; q < words; q += tile_side)
    for (int64_t i = 0; i < panels * mr && i < have; i += tile_side) {
      const int64_t count = words - q < tile_side ? words - q : tile_side, panel = i / mr * mr;
      const int64_t rows = have - panel < mr ? have - panel : mr, part = have - i < tile_side ? have - i : tile_side;
      const T* corner = from + 2 * q * pitch + i;
      float* to = out + panel * words + q * rows + (i - panel) * count;
      if (part == tile_side && q + tile_side <= whole) {
        turn_tile([&](int w, int r) { return words_along(corner + 2 * w * pitch + r, pitch, true); }, to);
      } else {
        for (int64_t r = 0; r < part; ++r)
          for (int64_t w = 0; w < count; ++w)
            to[r * count + w] = word_of(corner + 2 * w * pitch + r, pitch, q + w < whole);
      }
    }
#else
  pack_along<mr>(from, pitch, have, panels, kb, out);
#endif
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

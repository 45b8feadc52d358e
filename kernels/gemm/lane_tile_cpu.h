// One register tile of a product in lanes: which sums are added to it, where it is stored, and its epilogue. Included
// only by the *_cpu.cpp of products, once per instruction set.
#pragma once

#include "kernels/gemm/lane_walk_cpu.h"
#include "kernels/micro_tile_cpu.h"
#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// A block of the result, and where its partial sums are. Slot 0 is the result, or its f32 block if the result is bf16.
struct Block {
  int64_t i0, mb, j0, nb;
  // f32 blocks for slots 1, 2, ..., `apart` elements from one to the next; if the result is bf16, the block of slot 0
  // comes first. Each tile is one run of memory; a column of tiles has `rows` rows.
  float* wide;
  int64_t rows, apart;
};

// Finishes rows [i, i + rows) and columns [j, j + cols) of the result: adds the bias, computes GELU, rounds from the
// f32 block.
template <class C> void finish(const GemmArgs& g, int64_t i, int64_t rows, int64_t j, int64_t cols, const float* block,
                               int64_t block_pitch) {
  for (int64_t r = 0; r < rows; ++r) {
    C* out = g.c.row<C>(i + r) + j;
    const float* in = block + r * block_pitch;
    const C* bias = g.bias.empty() ? nullptr : g.bias.ptr<C>() + j;
    C* gelu = g.gelu.empty() ? nullptr : g.gelu.row<C>(i + r) + j;
    StripOut<C> sums(out, cols);
    if (bias) {
      const StripIn<C> added(bias, cols);
      for (int64_t q = 0; q < cols; ++q) sums.put(q, in[q] + added[q]);
    } else {
      for (int64_t q = 0; q < cols; ++q) sums.put(q, in[q]);
    }
    sums.finish();
    if (!gelu) continue;
    if (g.gelu_form == Activation::gelu_tanh) {
      map_row(
          cols, gelu, [](float v) { return gelu_of(v); }, static_cast<const C*>(out));
    } else {
      map_row(
          cols, gelu, [](float v) { return gelu_erf_of(v); }, static_cast<const C*>(out));
    }
  }
}

// A panel at the result's edge computes 4, 8 or all of its rows. Fewer than 4 rows would make the multiply-adds wait
// for one another.
constexpr int a_few = 4, some = mr > 8 ? 8 : a_few;

// Sums that are added to a panel * b panel, in this order. The last may be the destination itself.
struct Sums {
  const float* from[64];
  int64_t pitch[64];
  int count;
};
template <class T, int made> __attribute__((noinline)) void micro_tile_of_sums(int64_t k, const float* a, int64_t rows,
                                                                               const float* b, const Sums& sums,
                                                                               float* to, int64_t to_pitch) {
  micro_product<T, made>(
      k, a, rows, b, [&](Vec(&acc)[mr][vectors]) __attribute__((always_inline)) {
        const int there = sums_of<T, made>(rows);
        for (int s = 0; s < sums.count; ++s) {
          const float* from = sums.from[s];
          const int64_t pitch = sums.pitch[s];
#pragma GCC unroll 16
          for (int i = 0; i < there; ++i)
#pragma GCC unroll 8
            for (int j = 0; j < vectors; ++j) acc[i][j] = plus(load(from + i * pitch + j * lanes), acc[i][j]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < there; ++i)
#pragma GCC unroll 8
          for (int j = 0; j < vectors; ++j) put(to + i * to_pitch + j * lanes, acc[i][j]);
      });
}

// Computes one tile of a segment: rows [i, i + rows) and columns [j, j + cols) of the block. T is the operands' type.
template <class T, class C> void multiply_tile(const GemmArgs& g, const Block& b, const Segment& s, const float* pa,
                                               const float* pb, int64_t i, int64_t rows, int64_t j, int64_t cols) {
  constexpr bool narrow = sizeof(C) == 2;
  const auto pitch_of = [&](int slot) { return slot > 0 || narrow ? nr : g.c.pitch; };
  const auto at = [&](int slot) -> float* {
    if (slot > 0 || narrow) return b.wide + (slot - !narrow) * b.apart + j * b.rows + i * nr;
    return reinterpret_cast<float*>(g.c.row<C>(b.i0 + i) + b.j0 + j);
  };
  const int64_t pitch = pitch_of(s.to);
  float* to = at(s.to);
  const bool in_place = s.sources > 0 && s.source[s.sources - 1] == s.to;
  // A tile that extends over the edge of the result is computed in a buffer beside it.
  const bool all_rows = tiled<T> || mr <= a_few || rows > some;
  const int64_t made = tiled<T> ? rows : all_rows ? mr : rows > a_few ? some : a_few;
  const bool beside = !narrow && s.to == 0 && (rows < made || cols < nr);
  // Prefetches the sums that are added, while the registers fill.
  for (int q = 0; q < s.sources; ++q) {
    if ((s.warm >> s.source[q] & 1) != 0) continue;
    const float* from = at(s.source[q]);
    const int64_t from_pitch = pitch_of(s.source[q]);
    for (int r = 0; r < rows; ++r)
      for (int e = 0; e < nr; e += 16) __builtin_prefetch(from + r * from_pitch + e);
  }
  float edge[mr * nr];
  if (!beside && all_rows && (s.sources == 0 || (s.sources == 1 && in_place))) {
    micro_tile<T>(s.kb, pa, rows, pb, to, pitch, in_place);
  } else {
    Sums sums;
    sums.count = s.sources - (beside && in_place);
    for (int q = 0; q < sums.count; ++q) sums.from[q] = at(s.source[q]), sums.pitch[q] = pitch_of(s.source[q]);
    const auto make = all_rows       ? micro_tile_of_sums<T, mr>
                      : rows > a_few ? micro_tile_of_sums<T, some>
                                     : micro_tile_of_sums<T, a_few>;
    make(s.kb, pa, rows, pb, sums, beside ? edge : to, beside ? nr : pitch);
  }
  if (beside)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t q = 0; q < cols; ++q)
        to[r * pitch + q] = in_place ? to[r * pitch + q] + edge[r * nr + q] : edge[r * nr + q];
  if (s.complete && (narrow || !g.bias.empty() || !g.gelu.empty()))
    finish<C>(g, b.i0 + i, rows, b.j0 + j, cols, to, pitch);
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

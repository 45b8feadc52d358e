// Register tiles of the matrix product and the packing of their operands. Included only by *_cpu.cpp, once per
// instruction set.
#pragma once

#include "kernels/bf16_pairs_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

#if defined(__AVX512F__)
constexpr int mr = 14;
#elif defined(__AVX2__)
constexpr int mr = 6;
#else
constexpr int mr = 4;
#endif
constexpr int vectors = 2, nr = lanes * vectors;

// end(acc): what becomes of a panel * b panel over k steps; a panel: k groups of mr values, b panel: k groups of nr
// values. By pairs a group has two steps, each value both; where k is odd the last has a step of zeros.
template <bool by_pairs, class End>
inline __attribute__((always_inline)) void micro_product(int64_t k, const float* __restrict a,
                                                         const float* __restrict b, const End& end) {
  Vec acc[mr][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < mr; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) acc[i][j] = zero();
  for (int64_t p = 0; p < (by_pairs ? (k + 1) / 2 : k); ++p) {
    Vec bv[vectors];
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) bv[j] = load(b + j * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < mr; ++i) {
      const Vec av = broadcast(a[i]);
#pragma GCC unroll 8
      for (int j = 0; j < vectors; ++j)
        acc[i][j] = by_pairs ? multiply_pairs(av, bv[j], acc[i][j]) : fma(av, bv[j], acc[i][j]);
    }
    a += mr;
    b += nr;
  }
  end(acc);
}

// c[mr, nr] (+)= a panel * b panel.
template <bool by_pairs> inline __attribute__((always_inline)) void micro_tile(int64_t k, const float* __restrict a,
                                                                               const float* __restrict b, float* c,
                                                                               int64_t pitch, int add) {
  micro_product<by_pairs>(
      k, a, b, [&](Vec(&acc)[mr][vectors]) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (int i = 0; i < mr; ++i)
#pragma GCC unroll 8
          for (int j = 0; j < vectors; ++j) {
            float* to = c + i * pitch + j * lanes;
            put(to, add ? plus(load(to), acc[i][j]) : acc[i][j]);
          }
      });
}

// pack_panel by pairs: out[p / 2 * width + i] has steps p and p + 1.
inline void pack_pairs(const b16* from, int64_t si, int64_t sp, int64_t have, int width, int64_t kb, float* out) {
  const int64_t whole = kb / 2, pairs = (kb + 1) / 2;
  if (si == 1 && have == width) {
    for (int64_t q = 0; q < whole; ++q) {
      const b16 *first = from + 2 * q * sp, *second = first + sp;
      for (int i = 0; i < width; ++i) out[q * width + i] = pair_of(first[i], second[i]);
    }
    for (int i = 0; i < width && whole < pairs; ++i) out[whole * width + i] = pair_of(from[2 * whole * sp + i], {0});
    return;
  }
  if (have < width) memset(out, 0, static_cast<std::size_t>(pairs * width) * sizeof(float));
  constexpr int64_t strip = 16;  // keeps the written lines in the first-level cache
  for (int64_t q0 = 0; q0 < pairs; q0 += strip) {
    const int64_t end = q0 + strip < whole ? q0 + strip : whole;
    for (int64_t i = 0; i < have; ++i) {
      const b16* row = from + i * si;
      for (int64_t q = q0; q < end; ++q) out[q * width + i] = pair_of(row[2 * q * sp], row[(2 * q + 1) * sp]);
      if (whole < pairs && q0 + strip >= pairs) out[whole * width + i] = pair_of(row[2 * whole * sp], {0});
    }
  }
}

// Packs `width` rows (of op(a), or columns of op(b)) times kb steps into groups: out[p * width + i]; missing rows are
// zero. Where operands are paired, as pack_pairs has it. Along: consecutive i are `si` elements apart, consecutive p
// `sp`.
template <class T>
void pack_panel(const T* from, int64_t si, int64_t sp, int64_t have, int width, int64_t kb, float* out) {
  if constexpr (paired<T>) return pack_pairs(from, si, sp, have, width, kb, out);
  if (si == 1 && have == width) {
    for (int64_t p = 0; p < kb; ++p) {
      const T* row = from + p * sp;
      for (int i = 0; i < width; ++i) out[p * width + i] = widen(row[i]);
    }
    return;
  }
  if (have < width) memset(out, 0, static_cast<std::size_t>(kb * width) * sizeof(float));
  constexpr int64_t strip = 16;  // keeps the written lines in the first-level cache
  for (int64_t p0 = 0; p0 < kb; p0 += strip) {
    const int64_t end = p0 + strip < kb ? p0 + strip : kb;
    for (int64_t i = 0; i < have; ++i) {
      const T* row = from + i * si;
      for (int64_t p = p0; p < end; ++p) out[p * width + i] = widen(row[p * sp]);
    }
  }
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

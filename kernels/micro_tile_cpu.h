// Register tiles of the matrix product. Included only by *_cpu.cpp, once per instruction set.
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

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

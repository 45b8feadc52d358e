// Packing of an operand whose rows lie along the sum: squares of registers are turned over. Where few rows of the other
// operand share it, packing is what a product takes. Included only by *_cpu.cpp, once per instruction set.
#pragma once

#include "kernels/micro_tile_cpu.h"

#include <utility>

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

inline Vec widened(const float* p) { return load(p); }
inline Vec widened(const b16* p) {
  using Halves [[gnu::vector_size(2 * lanes)]] = std::uint16_t;
  using Words [[gnu::vector_size(4 * lanes)]] = std::uint32_t;
  Halves narrow;
  __builtin_memcpy(&narrow, p, sizeof narrow);
  const Words wide = __builtin_convertvector(narrow, Words) << 16;
  Vec out;
  __builtin_memcpy(&out, &wide, sizeof out);
  return out;
}

// Squares of `half` elements beside the diagonal change places.
template <int half, int... l>
inline __attribute__((always_inline)) void exchange(Vec& a, Vec& b, std::integer_sequence<int, l...>) {
  const Vec low = __builtin_shufflevector(a, b, ((l & half) != 0 ? lanes + l - half : l)...);
  b = __builtin_shufflevector(a, b, ((l & half) != 0 ? lanes + l : l + half)...);
  a = low;
}
template <int half> inline __attribute__((always_inline)) void turn_over(Vec (&v)[lanes]) {
  if constexpr (half > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i)
      if ((i & half) == 0) exchange<half>(v[i], v[i + half], std::make_integer_sequence<int, lanes>());
    turn_over<half / 2>(v);
  }
}

// pack_pairs for width nr and sp = 1: a pair is what a word of a row is.
inline void pack_pairs_across(const b16* from, int64_t pitch, int64_t have, int64_t kb, float* out) {
  const int64_t whole = kb / 2;
  const auto word = [](const b16* p) { return pair_of(p[0], p[1]); };
  for (int i0 = 0; i0 < nr; i0 += lanes) {
    int64_t q = 0;
    for (; q + lanes <= whole; q += lanes) {
      Vec v[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        v[i] = zero();
        if (i0 + i < have) __builtin_memcpy(&v[i], from + (i0 + i) * pitch + 2 * q, sizeof v[i]);
      }
      turn_over<lanes / 2>(v);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) put(out + (q + i) * nr + i0, v[i]);
    }
    for (; q < whole; ++q)
      for (int i = i0; i < i0 + lanes; ++i) out[q * nr + i] = i < have ? word(from + i * pitch + 2 * q) : 0.0f;
    for (int i = i0; i < i0 + lanes && 2 * whole < kb; ++i)
      out[whole * nr + i] = i < have ? pair_of(from[i * pitch + 2 * whole], {0}) : 0.0f;
  }
}

// pack_panel for width nr and sp = 1: out[p * nr + i] is element p of row i; missing rows are zero. Where operands are
// paired, by pairs.
template <class T> void pack_across(const T* from, int64_t pitch, int64_t have, int64_t kb, float* out) {
  if constexpr (paired<T>) return pack_pairs_across(from, pitch, have, kb, out);
  for (int i0 = 0; i0 < nr; i0 += lanes) {
    int64_t p = 0;
    for (; p + lanes <= kb; p += lanes) {
      Vec v[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) v[i] = i0 + i < have ? widened(from + (i0 + i) * pitch + p) : zero();
      turn_over<lanes / 2>(v);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) put(out + (p + i) * nr + i0, v[i]);
    }
    for (; p < kb; ++p)
      for (int i = i0; i < i0 + lanes; ++i) out[p * nr + i] = i < have ? widen(from[i * pitch + p]) : 0.0f;
  }
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

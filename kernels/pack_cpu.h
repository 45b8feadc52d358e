// Packing of a product's operands into panels, for either memory order of rows and steps. Included only by *_cpu.cpp,
// once per instruction set.
#pragma once

#include "kernels/bf16_pairs_cpu.h"

#include <utility>

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

// A panel has `width` rows of op(a), or columns of op(b), times kb steps of the sum. Its steps are stored as 32-bit
// words: out[q * width + i] is word q of row i. A word is one step in f32, or two steps where operands are paired. An
// odd last step is paired with a step of zeros. Missing rows are zero. Panels follow one another without a gap.
template <class T> constexpr int steps_of_word = paired<T> ? 2 : 1;
template <class T> constexpr int64_t words_of(int64_t kb) { return (kb + steps_of_word<T> - 1) / steps_of_word<T>; }

// The word of the step at p. A paired word also takes the step `apart` elements behind it, if that step is `there`.
template <class T> inline float word_of(const T* p, int64_t apart, bool there) {
  if constexpr (paired<T>) return pair_of(p[0], there ? p[apart] : T{0});
  return widen(p[0]);
}

// As many words of one row as a register has. The row's steps are neighbours in memory.
inline Vec words_at(const float* p) { return load(p); }
inline Vec words_at(const b16* p) {
  Vec out;
  if constexpr (paired<b16>) {
    __builtin_memcpy(&out, p, sizeof out);
  } else {
    using Halves [[gnu::vector_size(2 * lanes)]] = std::uint16_t;
    using Words [[gnu::vector_size(4 * lanes)]] = std::uint32_t;
    Halves narrow;
    __builtin_memcpy(&narrow, p, sizeof narrow);
    const Words wide = __builtin_convertvector(narrow, Words) << 16;
    __builtin_memcpy(&out, &wide, sizeof out);
  }
  return out;
}

inline Vec words_at(const h16* p) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  float wide[lanes];
  widen_row(wide, p, lanes);
  return load(wide);
#endif
}

// One stage of an in-register transpose: swaps the off-diagonal squares of `half` x `half` elements.
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

// Stores the first `count` lanes as one word of the panel. The surplus lanes of a whole-register store fall on the
// panel's next word, which is written later. Behind the panel's last word, only `count` lanes are written.
template <int count> inline void put_words(float* to, Vec v, bool last) {
  if (count == lanes || !last) put(to, v);
  else __builtin_memcpy(to, &v, count * sizeof(float));
}

// Packs a panel of rows `pitch` elements apart, whose steps are neighbours, by transposing squares of registers. The
// first `have` rows exist. Rows of the next panel, if any, are prefetched, because no hardware prefetcher expects them.
template <int width, class T>
void pack_across(const T* from, int64_t pitch, int64_t have, int64_t kb, float* __restrict out) {
  static_assert(width < lanes || width % lanes == 0);
  constexpr int count = width < lanes ? width : lanes, steps = steps_of_word<T>;
  const int64_t whole = kb / steps, words = words_of<T>(kb);
  for (int i0 = 0; i0 < width; i0 += lanes) {
    int64_t q = 0;
    for (; q + lanes <= whole; q += lanes) {
      Vec v[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        v[i] = i < count && i0 + i < have ? words_at(from + (i0 + i) * pitch + steps * q) : zero();
#pragma GCC unroll 16
      for (int i = 0; i < count; ++i)
        if (i0 + i + width < have) __builtin_prefetch(from + (i0 + i + width) * pitch + steps * q, 0, 2);
      turn_over<lanes / 2>(v);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) put_words<count>(out + (q + i) * width + i0, v[i], q + i + 1 == words);
    }
    for (; q < words; ++q)
      for (int i = i0; i < i0 + count; ++i)
        out[q * width + i] = i < have ? word_of(from + i * pitch + steps * q, 1, q < whole) : 0.0f;
  }
}

// One word of as many neighbouring rows as a register has.
template <class T> inline Vec words_along(const T* p, int64_t pitch, bool there) {
  if constexpr (paired<T>) {
    using Halves [[gnu::vector_size(2 * lanes)]] = std::uint16_t;
    using Words [[gnu::vector_size(4 * lanes)]] = std::uint32_t;
    Halves first, second{};
    __builtin_memcpy(&first, p, sizeof first);
    if (there) __builtin_memcpy(&second, p + pitch, sizeof second);
    const Words pairs = __builtin_convertvector(second, Words) << 16 | __builtin_convertvector(first, Words);
    Vec out;
    __builtin_memcpy(&out, &pairs, sizeof out);
    return out;
  } else {
    return words_at(p);
  }
}

// Packs `panels` panels of rows that are neighbours in memory; steps are `pitch` elements apart. `have` rows are left
// of the matrix. Reads lines of several panels at once, so that memory is read in long runs.
template <int width, class T>
void pack_along(const T* from, int64_t pitch, int64_t have, int64_t panels, int64_t kb, float* __restrict out) {
  constexpr int count = width < lanes ? width : lanes, steps = steps_of_word<T>;
  constexpr int64_t together = 8, ahead = 8;  // panels packed together; words ahead whose rows are prefetched
  const int64_t whole = kb / steps, words = words_of<T>(kb), apart = width * words;
  // Panels whose rows can be read by whole registers.
  constexpr int64_t read = count < lanes ? lanes : width;
  const int64_t readable = have < read ? 0 : (have - read) / width + 1;
  const int64_t quick = readable < panels ? readable : panels;
  for (int64_t g0 = 0; g0 < quick; g0 += together) {
    const int64_t end = g0 + together < quick ? g0 + together : quick;
    for (int64_t q = 0; q < words; ++q) {
      const T* row = from + steps * q * pitch;
      const int64_t next = steps * pitch * (q + ahead < whole ? ahead : 0);
      for (int64_t g = g0; g < end; ++g)
#pragma GCC unroll 4
        for (int i = 0; i < width; i += lanes) {
          const T* from_here = row + g * width + i;
          for (int s = 0; s < steps; ++s) __builtin_prefetch(from_here + next + s * pitch);
          put_words<count>(out + g * apart + q * width + i, words_along(from_here, pitch, q < whole), q + 1 == words);
        }
    }
  }
  for (int64_t g = quick; g < panels; ++g)
    for (int64_t q = 0; q < words; ++q)
      for (int64_t i = 0; i < width; ++i)
        out[g * apart + q * width + i] =
            g * width + i < have ? word_of(from + steps * q * pitch + g * width + i, pitch, q < whole) : 0.0f;
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

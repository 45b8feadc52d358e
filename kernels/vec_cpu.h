// Vec: as many floats as a register of the instruction set holds. Included only by *_cpu.cpp, once per instruction set.
#pragma once

#include "kernels/cpu.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

#if defined(__AVX512F__)
using Vec = __m512;
constexpr int lanes = 16;
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void put(float* p, Vec a) { _mm512_storeu_ps(p, a); }
inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec broadcast(float a) { return _mm512_set1_ps(a); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec plus(Vec a, Vec b) { return _mm512_add_ps(a, b); }
#elif defined(__AVX2__)
using Vec = __m256;
constexpr int lanes = 8;
inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline void put(float* p, Vec a) { _mm256_storeu_ps(p, a); }
inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec broadcast(float a) { return _mm256_set1_ps(a); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec plus(Vec a, Vec b) { return _mm256_add_ps(a, b); }
#else
using Vec = __m128;
constexpr int lanes = 4;
inline Vec load(const float* p) { return _mm_loadu_ps(p); }
inline void put(float* p, Vec a) { _mm_storeu_ps(p, a); }
inline Vec zero() { return _mm_setzero_ps(); }
inline Vec broadcast(float a) { return _mm_set1_ps(a); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
inline Vec plus(Vec a, Vec b) { return _mm_add_ps(a, b); }
#endif

// The greater value of each lane; b where either is NaN.
#if defined(__AVX512F__)
inline Vec greater(Vec a, Vec b) { return _mm512_mask_max_ps(a, 0xffff, a, b); }
#elif defined(__AVX2__)
inline Vec greater(Vec a, Vec b) { return _mm256_max_ps(a, b); }
#else
inline Vec greater(Vec a, Vec b) { return _mm_max_ps(a, b); }
#endif

using IntVec = std::int32_t __attribute__((vector_size(sizeof(Vec))));
inline IntVec bits_of(Vec x) { return reinterpret_cast<IntVec>(x); }
inline Vec of_bits(IntVec x) { return reinterpret_cast<Vec>(x); }

// Each lane has the bits of exp_of(float), except that a NaN may be another NaN. Only small x are clamped first: a
// large x takes no slow path, and its result is replaced by infinity. Range::least promises that no lane is above 88
// and skips that check.
enum class Range { all, least };
template <Range range = Range::all> inline Vec exp_of(Vec x) {
  const Vec low = broadcast(-87.3f), clamped = greater(low, x);
  const Vec shifted = fma(clamped, broadcast(1.44269504088896341f), broadcast(12582912.0f));
  const Vec n = shifted - broadcast(12582912.0f);
  const Vec r = fma(n, broadcast(2.12194440e-4f), fma(n, broadcast(-0.693359375f), clamped));
  Vec p = broadcast(1.9875691500e-4f);
  p = fma(p, r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  p = fma(p, r * r, r) + broadcast(1.0f);
#if defined(__AVX512F__)
  const Vec scaled = _mm512_mask_scalef_ps(p, 0xffff, p, n);  // exact: no result is denormal
#else
  const IntVec e = bits_of(shifted) - 0x4b400000, half = e >> 1;
  const Vec scaled = p * of_bits((half + 127) << 23) * of_bits((e - half + 127) << 23);
#endif
  // Both comparisons are false for NaN, so NaN stays NaN.
  const Vec least = x < low ? zero() : scaled;
  if constexpr (range == Range::least) return least;
  return x > broadcast(88.72f) ? broadcast(__builtin_inff()) : least;
}

// tanh of each lane, within 2 units in the last place. Near zero it is a polynomial (Moshier, Cephes, tanhf), elsewhere
// 1 - 2 / (exp(2 |x|) + 1) with the sign of x.
inline Vec tanh_of(Vec x) {
  const IntVec sign = bits_of(x) & ~0x7fffffff;
  const Vec size = of_bits(bits_of(x) ^ sign), square = x * x;
  Vec p = broadcast(-5.70498872745e-3f);
  p = fma(p, square, broadcast(2.06390887954e-2f));
  p = fma(p, square, broadcast(-5.37397155531e-2f));
  p = fma(p, square, broadcast(1.33314422036e-1f));
  p = fma(p, square, broadcast(-3.33332819422e-1f));
  const Vec near = fma(p * square, x, x);
  const Vec far = broadcast(1.0f) - broadcast(2.0f) / (exp_of(size + size) + broadcast(1.0f));
  return size < broadcast(0.625f) ? near : of_bits(bits_of(far) | sign);
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

// Building blocks of the compiled variants: bf16 and f16, fixed-order sums, exp and tanh. Included only by *_cpu.cpp,
// once per instruction set.
#pragma once

#include "kernels/half_bits.h"
#include "kernels/mat.h"

#include <cstdint>
#include <cstring>
#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

struct b16 {
  std::uint16_t bits;
};
struct h16 {  // f16
  std::uint16_t bits;
};

inline float bits_to_float(std::uint32_t u) {
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
inline std::uint32_t float_to_bits(float f) {
  std::uint32_t u;
  __builtin_memcpy(&u, &f, 4);
  return u;
}

// Widening is exact; narrowing rounds to nearest, ties to even; NaN stays NaN.
inline float widen(b16 v) { return bits_to_float(static_cast<std::uint32_t>(v.bits) << 16); }
#if defined(__F16C__)
inline float widen(h16 v) { return _cvtsh_ss(v.bits); }
#else
inline float widen(h16 v) { return f32_of_f16(v.bits); }
#endif
inline float widen(float v) { return v; }
inline double widen(double v) { return v; }
inline void store(float* p, float v) { *p = v; }
inline void store(double* p, double v) { *p = v; }
inline void store(b16* p, float v) {
  const std::uint32_t u = float_to_bits(v);
  const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  p->bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
}
#if defined(__F16C__)
inline void store(h16* p, float v) { p->bits = _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT); }
#else
inline void store(h16* p, float v) { p->bits = f16_of_f32(v); }
#endif

// Rows without overlap. The bits are those of widen() and store(). The instructions for f16 take a register at a time.
template <class T> inline void widen_row(float* to, const T* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = widen(from[i]);
}
template <class T> inline void narrow_row(T* to, const float* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) store(&to[i], from[i]);
}
#if defined(__F16C__)
inline void widen_row(float* to, const h16* from, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(to + i,
                     _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
#endif
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < n; ++i) to[i] = widen(from[i]);
}
inline void narrow_row(h16* to, const float* from, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) store(&to[i], from[i]);
}
#endif

// The type that a working type computes in.
template <class T> struct Compute { using type = float; };
template <> struct Compute<double> { using type = double; };
template <class T> using compute_t = typename Compute<T>::type;

// x y + z, rounded once where the instruction set has a fused multiply-add.
inline float fused(float x, float y, float z) {
#if defined(__FMA__)
  return __builtin_fmaf(x, y, z);
#else
  return x * y + z;
#endif
}

// exp in f32 by range reduction with ln 2 in two parts and a degree-6 polynomial; error about 1 ulp. The result is 0
// below -87.3 and infinity above 88.72; NaN stays NaN.
inline float exp_of(float x) {
  const float clamped = x < -87.3f ? -87.3f : x > 88.72f ? 88.72f : x;
  const float shifted = fused(clamped, 1.44269504088896341f, 12582912.0f);
  const float n = shifted - 12582912.0f;
  const float r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, clamped));
  float p = 1.9875691500e-4f;
  p = fused(p, r, 1.3981999507e-3f);
  p = fused(p, r, 8.3334519073e-3f);
  p = fused(p, r, 4.1665795894e-2f);
  p = fused(p, r, 1.6666665459e-1f);
  p = fused(p, r, 5.0000001201e-1f);
  p = fused(p, r * r, r) + 1.0f;
  const std::int32_t e = static_cast<std::int32_t>(float_to_bits(shifted)) - 0x4b400000;
  const std::int32_t half = e >> 1;
  const float scaled = p * bits_to_float(static_cast<std::uint32_t>(half + 127) << 23) *
                       bits_to_float(static_cast<std::uint32_t>(e - half + 127) << 23);
  const float low = x < -87.3f ? 0.0f : scaled;
  const float high = x > 88.72f ? __builtin_inff() : low;
  return x != x ? x : high;
}
inline double exp_of(double x) { return __builtin_exp(x); }
// tanh by its continued form: 1 - 2 / (exp(2x) + 1); absolute error below 2e-7.
inline float tanh_of(float x) { return 1.0f - 2.0f / (exp_of(2.0f * x) + 1.0f); }
inline double tanh_of(double x) { return __builtin_tanh(x); }
inline float sqrt_of(float x) { return __builtin_sqrtf(x); }
inline double sqrt_of(double x) { return __builtin_sqrt(x); }

// GELU in the tanh form (Hendrycks and Gimpel 2016).
template <class F> inline F gelu_of(F x) {
  const F u = F(0.7978845608028654) * (x + F(0.044715) * x * x * x);
  return F(0.5) * x * (F(1) + tanh_of(u));
}
template <class F> inline F gelu_slope(F x) {
  const F u = F(0.7978845608028654) * (x + F(0.044715) * x * x * x);
  const F t = tanh_of(u);
  return F(0.5) * (F(1) + t) + F(0.5) * x * (F(1) - t * t) * F(0.7978845608028654) * (F(1) + F(3 * 0.044715) * x * x);
}

// The density of the normal distribution, and its cumulative distribution Phi. The tail is exp(-x^2 / 2) times a
// polynomial of degree 10 in q = 1 / (1 + 0.24 |x|): a weighted fit of Mills' ratio, within 4e-9. Above 0 the tail is
// subtracted from 1. The absolute error is below 3e-7. Below 0, where Phi is small, the relative error is below 3e-6.
template <class F> inline F normal_density(F x) { return F(0.3989422804014327) * exp_of(F(-0.5) * x * x); }
inline float normal_cdf(float x) {
  const float q = 1.0f / (1.0f + 0.24f * __builtin_fabsf(x));
  float p = 2.551805161e-2f;
  p = p * q - 1.245900338e-1f;
  p = p * q + 2.053588803e-1f;
  p = p * q - 1.440937346e-1f;
  p = p * q + 1.412888238e-1f;
  p = p * q + 2.825154226e-2f;
  p = p * q + 8.772511768e-2f;
  p = p * q + 8.894308189e-2f;
  p = p * q + 9.585613906e-2f;
  p = p * q + 9.574213335e-2f;
  const float tail = exp_of(-0.5f * x * x) * (p * q);
  return x > 0.0f ? 1.0f - tail : tail;
}
inline double normal_cdf(double x) { return 0.5 * __builtin_erfc(-0.7071067811865476 * x); }

// GELU in the erf form: x Phi(x).
template <class F> inline F gelu_erf_of(F x) { return x * normal_cdf(x); }
template <class F> inline F gelu_erf_slope(F x) { return normal_cdf(x) + x * normal_density(x); }

// A sum over many elements. Sixteen lanes each add in ascending order; a fixed tree adds the lanes. The order depends
// on the number of elements alone.
template <class F> struct LaneSum {
  F lane[16] = {};
  // Adds f(i) for i in [0, n). All calls but the last have a multiple of 16 elements.
  template <class Function> void add(std::int64_t n, const Function& f) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16)
      for (int l = 0; l < 16; ++l) lane[l] += f(i + l);
    for (int l = 0; l < 16 && i < n; ++i, ++l) lane[l] += f(i);
  }
  F total() {
    for (int width = 8; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
    return lane[0];
  }
};
template <class F, class Function> inline F lane_sum(std::int64_t n, const Function& f) {
  LaneSum<F> sum;
  sum.add(n, f);
  return sum.total();
}

// Sets n elements to zero bits.
template <class T> inline void set_zero(T* to, std::int64_t n) {
  memset(to, 0, static_cast<std::size_t>(n) * sizeof(T));
}
// Copies n elements to memory that does not overlap them.
template <class T> inline void copy_elements(T* to, const T* from, std::int64_t n) {
  memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
}

// Call body(T*) with a null pointer of the element type: a narrow one, one that is summed in f32, or any that kernels
// compute in.
template <class Body> inline void with_narrow_type(Type type, const Body& body) {
  if (type == Type::f16) body(static_cast<h16*>(nullptr));
  else body(static_cast<b16*>(nullptr));
}
template <class Body> inline void with_type_of_f32_sums(Type type, const Body& body) {
  if (type == Type::f32) body(static_cast<float*>(nullptr));
  else with_narrow_type(type, body);
}
template <class Body> inline void with_type(Type type, const Body& body) {
  if (type == Type::f64) body(static_cast<double*>(nullptr));
  else with_type_of_f32_sums(type, body);
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

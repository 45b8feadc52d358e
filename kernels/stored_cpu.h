// Element types that are only stored, for the compiled variants: f16, and rows of narrow values. Included only by
// *_cpu.cpp, once per instruction set.
#pragma once

#include "kernels/cpu.h"
#include "kernels/half_bits.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

struct h16 {
  std::uint16_t bits;
};

// As for bf16: widening is exact; narrowing rounds to nearest, ties to even; NaN stays NaN.
inline float widen(h16 v) { return f32_of_f16(v.bits); }
inline void store(h16* p, float v) { p->bits = f16_of_f32(v); }

// Rows without overlap. The bits are those of widen() and store(), with the instructions for f16 where there are any.
template <class T> inline void widen_row(float* to, const T* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = widen(from[i]);
}
template <class T> inline void narrow_row(T* to, const float* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) store(&to[i], from[i]);
}
#if defined(__F16C__)
inline void widen_row(float* to, const h16* from, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < n; ++i) to[i] = widen(from[i]);
}
inline void narrow_row(h16* to, const float* from, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) store(&to[i], from[i]);
}
#endif

// Calls body(T*) with a null pointer of the element type, also of types that are only stored.
template <class Body> inline void with_stored_type(Type type, const Body& body) {
  if (type == Type::f16) body(static_cast<h16*>(nullptr));
  else with_type(type, body);
}
// The same for the types of working copies.
template <class Body> inline void with_narrow_type(Type type, const Body& body) {
  if (type == Type::f16) body(static_cast<h16*>(nullptr));
  else body(static_cast<b16*>(nullptr));
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

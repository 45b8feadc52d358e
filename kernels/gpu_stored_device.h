// Element types that are only stored, for GPU kernels: f16. Included by *_cuda.cu, as kernels/gpu_device.h is.
#pragma once

#include "kernels/gpu_device.h"
#ifndef __CUDACC__
#include "kernels/half_bits.h"
#endif

namespace trainyard::kernels {
namespace {

struct h16 {
  std::uint16_t bits;
};

__device__ __forceinline__ float widen(h16 v) {
#ifdef __CUDACC__
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v.bits));
  return wide;
#else
  return f32_of_f16(v.bits);
#endif
}
// Rounds to nearest, ties to even, as on the CPU. NaN stays NaN, with any NaN bits.
__device__ __forceinline__ void store(h16* p, float v) {
#ifdef __CUDACC__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->bits) : "f"(v));
#else
  p->bits = f16_of_f32(v);
#endif
}

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
}  // namespace trainyard::kernels

// A warp's product on tensor cores, and how its operands lie in the registers of the 32 lanes (PTX ISA, "mma.m16n8k16").
#pragma once

#include "kernels/gpu_device.h"

namespace trainyard::kernels {
namespace {

// c[16, 8] += a[16, 16] b[16, 8], bf16 in, f32 out. With g = lane / 4 and t = lane % 4 a lane holds, two neighbours to a register,
//   a[0] = a(g, 2t..), a[1] = a(g + 8, 2t..), a[2] = a(g, 2t + 8..), a[3] = a(g + 8, 2t + 8..);   b0 = b(2t.., g), b1 = b(2t + 8.., g);
//   c[0], c[1] = c(g, 2t..), c[2], c[3] = c(g + 8, 2t..).
// So two neighbouring results of an earlier product, narrowed, are the a of a later one.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#ifdef __CUDACC__
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  emulated_mma(c, a, b0, b1);
#endif
}

// Two floats rounded to bf16, the first in the low half.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  b16 a, b;
  store(&a, low);
  store(&b, high);
  return static_cast<unsigned>(a.bits) | static_cast<unsigned>(b.bits) << 16;
}

// Two neighbours at p, which is at an even element.
__device__ __forceinline__ unsigned pair_at(const b16* p) { return *reinterpret_cast<const unsigned*>(p); }

}  // namespace
}  // namespace trainyard::kernels

// A warp's product on tensor cores: how its operands lie in the registers of the 32 lanes (PTX ISA, "mma.m16n8k16"),
// and how they are loaded.
#pragma once

#include "kernels/gpu_device.h"

namespace trainyard::kernels {
namespace {

// c[16, 8] += a[16, 16] b[16, 8], bf16 in, f32 out. With g = lane / 4 and t = lane % 4, a lane holds the following
// elements. A register of `a` or b holds two neighbours.
//   a[0] = a(g, 2t..), a[1] = a(g + 8, 2t..), a[2] = a(g, 2t + 8..), a[3] = a(g + 8, 2t + 8..);
//   b0 = b(2t.., g), b1 = b(2t + 8.., g); c[0], c[1] = c(g, 2t..), c[2], c[3] = c(g + 8, 2t..).
// So two neighbouring results of one product, narrowed to bf16, are an operand `a` of a later product.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  emulated_mma(c, a, b0, b1);
#endif
}

// Loads four 8 x 8 tiles of bf16 from shared memory. Lanes 8 m .. 8 m + 7 point to the rows of tile m, at multiples of
// 16 bytes. Lane (g, t) gets elements (g, 2t) and (g, 2t + 1) of each tile. Transposed, it gets (2t, g) and (2t + 1, g)
// (PTX ISA, "ldmatrix").
__device__ __forceinline__ void load_tiles(unsigned (&r)[4], const b16* row) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
#else
  emulated_ldmatrix(r, row, false);
#endif
}
__device__ __forceinline__ void load_tiles_transposed(unsigned (&r)[4], const b16* row) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
#else
  emulated_ldmatrix(r, row, true);
#endif
}

// Copies 16 bytes asynchronously from device memory to shared memory. If `there` is false it writes zeros and does not
// read `from`. close_copies() closes the copies since the last call into a group. await_copies() waits for all groups
// of this thread; other threads see the data after a barrier (PTX ISA, "cp.async").
__device__ __forceinline__ void copy_16(void* to, const void* from, bool there) {
#ifdef __CUDACC__
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
      "l"(from), "r"(there ? 16 : 0)
      : "memory");
#else
  emulated_copy_16(to, from, there);
#endif
}
__device__ __forceinline__ void close_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
__device__ __forceinline__ void await_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group 0;" ::: "memory");
#else
  emulated_await_copies();
#endif
}

// Two floats rounded to bf16, the first in the low half. NaN stays NaN, with any NaN bits.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
#ifdef __CUDACC__
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  b16 a, b;
  store(&a, low);
  store(&b, high);
  return static_cast<unsigned>(a.bits) | static_cast<unsigned>(b.bits) << 16;
#endif
}

constexpr float log2_e = 1.44269504f, ln_2 = 0.69314718f;

// 2^x in one instruction, with a relative error of 2^-22 (PTX ISA, "ex2.approx"). Denormal results are 0.
__device__ __forceinline__ float exp2_of(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// 1 / x in one instruction, with an error of 1 ulp; 0 for infinity.
__device__ __forceinline__ float reciprocal_of(float x) {
#ifdef __CUDACC__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

// The two neighbouring elements at p. p is at an even element.
__device__ __forceinline__ unsigned pair_at(const b16* p) { return *reinterpret_cast<const unsigned*>(p); }

}  // namespace
}  // namespace trainyard::kernels

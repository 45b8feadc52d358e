// Helpers of the GPU kernels: launches, bf16 and f16, fixed-order sums over a warp and a block, activations. Included
// by *_cuda.cu. nvcc compiles these files for devices; any other compiler compiles them for the host, with the emulator
// of the tests.
#pragma once

#include "kernels/mat.h"
#include "kernels/philox_words.h"

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
// `barriers` tells the emulator whether the kernel has __syncthreads() or other barriers; a device does not use it.
#define TRAINYARD_LAUNCH(kernel, barriers, grid, block, stream, ...) \
  kernel<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__)
// A launch with `bytes` of dynamic shared memory, which the kernel declares by TRAINYARD_DYNAMIC_SHARED.
#define TRAINYARD_LAUNCH_SHARED(kernel, bytes, grid, block, stream, ...)              \
  do {                                                                                \
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes); \
    kernel<<<grid, block, bytes, static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__);   \
  } while (false)
#define TRAINYARD_REQUIRE_ALIGNED(p, bytes)  // a device faults by itself
#define TRAINYARD_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
namespace trainyard::kernels {
inline const char* launch_failure() {
  const auto e = cudaPeekAtLastError();
  return e == cudaSuccess ? nullptr : cudaGetErrorString(e);
}
inline int attribute_of_device(cudaDeviceAttr what) {  // of the calling thread's device; 0 without a device
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, what, device) != cudaSuccess) return 0;
  return value;
}
// Shared memory that a block may have on this device: 99 KiB on sm_86 and sm_89, 163 on sm_80, 227 on sm_90.
inline int most_shared_bytes() { return attribute_of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin); }
// rounded_product rounds before anything is added; product_plus is a fused multiply-add. The compiler cannot change
// either, whatever the kernel around it.
__device__ __forceinline__ float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double rounded_product(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ float product_plus(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double product_plus(double a, double b, double c) { return __fma_rn(a, b, c); }
}  // namespace trainyard::kernels
#else
#include "kernels/half_bits.h"
#include TRAINYARD_EMULATOR
#define TRAINYARD_LAUNCH(kernel, barriers, grid, block, stream, ...) \
  emulator::launch(stream, grid, block, barriers, [=] { kernel(__VA_ARGS__); })
#define TRAINYARD_LAUNCH_SHARED(kernel, bytes, grid, block, stream, ...)       \
  do {                                                                         \
    static_assert((bytes) <= emulator::shared_bytes);                          \
    emulator::launch(stream, grid, block, true, [=] { kernel(__VA_ARGS__); }); \
  } while (false)
#define TRAINYARD_REQUIRE_ALIGNED(p, bytes) \
  if (reinterpret_cast<std::uintptr_t>(p) % (bytes) != 0) std::abort()
#define TRAINYARD_DYNAMIC_SHARED(name) alignas(16) static thread_local unsigned char name[emulator::shared_bytes]
namespace trainyard::kernels {
inline const char* launch_failure() { return nullptr; }
inline int most_shared_bytes() { return emulator::shared_bytes; }
template <class F> inline F rounded_product(F a, F b) { return a * b; }
template <class F> inline F product_plus(F a, F b, F c) { return a * b + c; }
}  // namespace trainyard::kernels
#endif

namespace trainyard::kernels {
namespace {

struct b16 {
  std::uint16_t bits;
};
struct h16 {  // f16
  std::uint16_t bits;
};

__device__ __forceinline__ float widen(b16 v) { return __uint_as_float(static_cast<unsigned>(v.bits) << 16); }
__device__ __forceinline__ float widen(h16 v) {
#ifdef __CUDACC__
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v.bits));
  return wide;
#else
  return f32_of_f16(v.bits);
#endif
}
__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ double widen(double v) { return v; }
__device__ __forceinline__ void store(float* p, float v) { *p = v; }
__device__ __forceinline__ void store(double* p, double v) { *p = v; }
// Rounds to nearest, ties to even, as on the CPU. NaN stays NaN, with any NaN bits.
__device__ __forceinline__ void store(b16* p, float v) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(p->bits) : "f"(v));
#else
  const unsigned u = __float_as_uint(v);
  const unsigned rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  p->bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
#endif
}
__device__ __forceinline__ void store(h16* p, float v) {
#ifdef __CUDACC__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->bits) : "f"(v));
#else
  p->bits = f16_of_f32(v);
#endif
}

template <class T> struct Compute { using type = float; };
template <> struct Compute<double> { using type = double; };
template <class T> using compute_t = typename Compute<T>::type;

__device__ __forceinline__ float exp_of(float x) { return expf(x); }
__device__ __forceinline__ double exp_of(double x) { return exp(x); }
__device__ __forceinline__ float tanh_of(float x) { return tanhf(x); }
__device__ __forceinline__ double tanh_of(double x) { return tanh(x); }
__device__ __forceinline__ float sqrt_of(float x) { return sqrtf(x); }
__device__ __forceinline__ double sqrt_of(double x) { return sqrt(x); }

// GELU in the erf form x Phi(x), and its slope Phi(x) + x phi(x).
__device__ __forceinline__ float normal_cdf(float x) { return 0.5f * erfcf(-0.70710678f * x); }
__device__ __forceinline__ double normal_cdf(double x) { return 0.5 * erfc(-0.7071067811865476 * x); }
template <class F> __device__ __forceinline__ F gelu_erf_of(F x) { return x * normal_cdf(x); }
template <class F> __device__ __forceinline__ F gelu_erf_slope(F x) {
  return normal_cdf(x) + x * F(0.3989422804014327) * exp_of(F(-0.5) * x * x);
}

// A butterfly sum: every lane gets the same sum, from the same tree.
template <class F> __device__ __forceinline__ F warp_sum(F v) {
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
  return v;
}
template <class F> __device__ __forceinline__ F warp_max(F v) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const F other = __shfl_xor_sync(0xffffffffu, v, lanes);
    v = other > v ? other : v;
  }
  return v;
}

constexpr int row_threads = 256;  // threads of a block that works on one row

// Sum over a block of row_threads threads: first within warps, then the warps' sums in ascending order. All threads get
// the result. `shared` holds 8 values and may be reused at once.
template <class F> __device__ __forceinline__ F block_sum(F v, F* shared) {
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  F sum = shared[0];
  for (int w = 1; w < row_threads / 32; ++w) sum += shared[w];
  __syncthreads();
  return sum;
}
template <class F> __device__ __forceinline__ F block_max(F v, F* shared) {
  v = warp_max(v);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  F most = shared[0];
  for (int w = 1; w < row_threads / 32; ++w) most = shared[w] > most ? shared[w] : most;
  __syncthreads();
  return most;
}

// The number of 256-thread blocks for n elements, at most 4096. Kernels stride over the rest (TRAINYARD_EACH).
inline unsigned blocks_for(std::int64_t n) {
  const std::int64_t blocks = (n + 255) / 256;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 4096 ? 4096 : blocks);
}

// In a kernel: a grid-stride loop over this thread's indices in [0, n).
#define TRAINYARD_EACH(i, n)                                                              \
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, \
                    i##_step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;         \
       i < (n); i += i##_step)

// V neighbouring elements, read and written by one instruction.
template <class T, int V> struct alignas(sizeof(T) * V) Vec { T v[V]; };
template <int V, class T> __device__ __forceinline__ Vec<T, V> vec_at(const T* p) {
  TRAINYARD_REQUIRE_ALIGNED(p, sizeof(Vec<T, V>));
  return *reinterpret_cast<const Vec<T, V>*>(p);
}
template <int V, class T> __device__ __forceinline__ void put_vec(T* p, const Vec<T, V>& v) {
  TRAINYARD_REQUIRE_ALIGNED(p, sizeof(Vec<T, V>));
  *reinterpret_cast<Vec<T, V>*>(p) = v;
}

// Row and column of the i-th group of a matrix with `per_row` groups in a row. Divides in 32 bits where both numbers
// fit.
struct RowGroup {
  std::int64_t row, group;
};
__device__ __forceinline__ RowGroup place_of(std::int64_t i, std::int64_t per_row) {
  if (((i | per_row) >> 32) != 0) return {i / per_row, i % per_row};
  const auto row = static_cast<unsigned>(i) / static_cast<unsigned>(per_row);
  return {static_cast<std::int64_t>(row),
          static_cast<std::int64_t>(static_cast<unsigned>(i) - row * static_cast<unsigned>(per_row))};
}

// Whether every row of these matrices consists of whole groups of v elements, each aligned to the group's size. Empty
// matrices do not count.
template <class... Mats> inline bool in_groups(int v, const Mats&... mats) {
  const auto fits = [v](const ConstMat& m) {
    const int width = m.type == Type::f64 ? 8 : m.type == Type::f32 ? 4 : 2;
    return m.empty() || (m.cols % v == 0 && m.pitch % v == 0 &&
                         reinterpret_cast<std::uintptr_t>(m.data) % static_cast<unsigned>(v * width) == 0);
  };
  return (fits(mats) && ...);
}
// How many elements of T make 16 bytes. f64 is for checks and goes one element at a time.
template <class T> constexpr int vector_of = sizeof(T) == 2 ? 8 : sizeof(T) == 4 ? 4 : 1;
// Columns of each thread that sums down a block of rows: few, so that there are enough threads.
template <class T> constexpr int summed_columns = sizeof(T) == 8 ? 1 : 2;

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
}  // namespace trainyard::kernels

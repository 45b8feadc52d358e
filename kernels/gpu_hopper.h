// Hopper's asynchronous instructions: warpgroup products, barriers in shared memory, and copies of boxes of a tensor
// (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions" and "cp.async.bulk.tensor"). For sources that nvcc
// compiles for sm_90a. Addresses in shared memory are 32-bit numbers.
#pragma once

#include "kernels/gpu_mma.h"

#ifdef __CUDACC__
#include <cuda.h>
#else
#include TRAINYARD_HOPPER_EMULATOR
#endif

namespace trainyard::kernels {
namespace {

// ---- Layout of a tile in shared memory -----------------------------------------------------------------------------
// A tile [rows][D] of bf16 is D / 64 panels [rows][64]. A row of a panel is 128 bytes: eight chunks of 16 bytes. Chunk
// c of row r is stored at chunk c ^ (r % 8), the 128-byte swizzle. Panels begin at multiples of 1024 bytes. The number
// of rows is a multiple of 8.
constexpr int panel_columns = 64, panel_row_bytes = 128, eight_rows_bytes = 8 * panel_row_bytes;

// The descriptor's bits 0-13: address / 16; 16-29: leading offset / 16; 32-45: stride / 16; 62-63: 1, the 128-byte
// swizzle.
__device__ constexpr std::uint64_t descriptor_of(std::uint32_t address, std::uint32_t leading) {
  return static_cast<std::uint64_t>((address & 0x3FFFF) >> 4) | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(eight_rows_bytes >> 4) << 32 | std::uint64_t{1} << 62;
}
// Rows are M or N, and channels are K ("K-major"). The hardware ignores the leading offset.
__device__ constexpr std::uint64_t rows_descriptor(std::uint32_t address) { return descriptor_of(address, 16); }
// Rows are K, and channels are N ("MN-major"). The leading offset is the distance between panels.
__device__ constexpr std::uint64_t columns_descriptor(std::uint32_t address, int rows) {
  return descriptor_of(address, static_cast<std::uint32_t>(rows * panel_row_bytes));
}
// channel_step: what step k of 16 channels adds to a descriptor. row_step: what step k of 16 rows adds.
__device__ constexpr std::uint64_t channel_step(int rows, int k) {
  return static_cast<std::uint64_t>(k / 4 * rows * panel_row_bytes + k % 4 * 32) >> 4;
}
__device__ constexpr std::uint64_t row_step(int k) { return static_cast<std::uint64_t>(k * 2 * eight_rows_bytes) >> 4; }

// ---- Products ------------------------------------------------------------------------------------------------------
// d[64, N] (+)= a[64, 16] b[16, N], bf16 in, f32 out, by the 128 threads of a warpgroup. N is twice the length of d.
// With w = warp of the group, g = lane / 4 and t = lane % 4, a thread holds
//   d[4 j + 2 h + e] = d(16 w + g + 8 h, 8 j + 2 t + e).
// Its part of `a` is what mma_bf16 takes, 16 w rows further down.
// Products are asynchronous: until wait_products they own their registers and tiles.
// commit_products closes the products issued so far into a group.

// Orders this thread's earlier writes to registers before later products.
__device__ __forceinline__ void fence_products() {
#ifdef __CUDACC__
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void commit_products() {
#ifdef __CUDACC__
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
  emulated_commit_products();
#endif
}
template <int Open> __device__ __forceinline__ void wait_products() {  // until at most `Open` groups still run
#ifdef __CUDACC__
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Open) : "memory");
#else
  emulated_wait_products(Open);
#endif
}
// Keeps the compiler from moving uses of x across this point, and from keeping copies of x.
template <int N> __device__ __forceinline__ void pin(float (&x)[N]) {
#ifdef __CUDACC__
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
#endif
}
template <int N> __device__ __forceinline__ void pin(unsigned (&x)[N][4]) {
#ifdef __CUDACC__
#pragma unroll
  for (int i = 0; i < 4 * N; ++i) asm volatile("" : "+r"(x[i / 4][i % 4])::"memory");
#endif
}

#define TRAINYARD_EIGHT(d, i)                                                                                 \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define TRAINYARD_32(d, i) \
  TRAINYARD_EIGHT(d, i), TRAINYARD_EIGHT(d, i + 8), TRAINYARD_EIGHT(d, i + 16), TRAINYARD_EIGHT(d, i + 24)
#define TRAINYARD_FIRST_32                                 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define TRAINYARD_NEXT_32                                            \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

// a[64 rows][16 channels] and b[64 or 128 rows][16 channels], both in shared memory. Without `accumulate`, d is
// overwritten.
__device__ __forceinline__ void multiply_rows(float (&d)[32], std::uint64_t a, std::uint64_t b, bool accumulate) {
#ifdef __CUDACC__
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" TRAINYARD_FIRST_32 "}, %32, %33, p, 1, 1, 0, 0; }"
      : TRAINYARD_32(d, 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate))
      : "memory");
#else
  emulated_product(d, 64, nullptr, a, b, accumulate);
#endif
}
__device__ __forceinline__ void multiply_rows(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate) {
#ifdef __CUDACC__
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %66, 0;"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" TRAINYARD_FIRST_32 "," TRAINYARD_NEXT_32
      "}, %64, %65, p, 1, 1, 0, 0; }"
      : TRAINYARD_32(d, 0), TRAINYARD_32(d, 32)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate))
      : "memory");
#else
  emulated_product(d, 128, nullptr, a, b, accumulate);
#endif
}
// `a` in registers, b[16 rows][64 or 128 channels] in shared memory; the product is added to d.
__device__ __forceinline__ void multiply_columns(float (&d)[32], const unsigned (&a)[4], std::uint64_t b) {
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" TRAINYARD_FIRST_32
               "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
               : TRAINYARD_32(d, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
               : "memory");
#else
  emulated_product(d, 64, a, 0, b, true);
#endif
}
__device__ __forceinline__ void multiply_columns(float (&d)[64], const unsigned (&a)[4], std::uint64_t b) {
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" TRAINYARD_FIRST_32 "," TRAINYARD_NEXT_32
               "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
               : TRAINYARD_32(d, 0), TRAINYARD_32(d, 32)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
               : "memory");
#else
  emulated_product(d, 128, a, 0, b, true);
#endif
}
// `a` from the bits of four floats, each of which holds two bf16 values.
template <int N> __device__ __forceinline__ void multiply_columns(float (&d)[N], const float* a, std::uint64_t b) {
#ifdef __CUDACC__
  const unsigned bits[4] = {__float_as_uint(a[0]), __float_as_uint(a[1]), __float_as_uint(a[2]), __float_as_uint(a[3])};
  multiply_columns(d, bits, b);
#else
  emulated_product(d, 2 * N, reinterpret_cast<const unsigned*>(a), 0, b, true);
#endif
}
#undef TRAINYARD_EIGHT
#undef TRAINYARD_32
#undef TRAINYARD_FIRST_32
#undef TRAINYARD_NEXT_32

// ---- Barriers in shared memory -------------------------------------------------------------------------------------
// The 32-bit address of `memory`, which lies in the block's dynamic shared memory.
__device__ __forceinline__ std::uint32_t shared_address(const void* memory) {
#ifdef __CUDACC__
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
#else
  return emulated_shared_address(memory);
#endif
}
// Initializes a barrier. A phase ends when `arrivals` threads have arrived and all expected bytes have been copied.
__device__ __forceinline__ void set_barrier(std::uint32_t barrier, int arrivals) {
#ifdef __CUDACC__
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
#else
  emulated_set_barrier(barrier, arrivals);
#endif
}
// Makes the barriers that this thread initialized visible to copies; other threads also need a __syncthreads().
__device__ __forceinline__ void publish_barriers() {
#ifdef __CUDACC__
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
#ifdef __CUDACC__
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#else
  emulated_arrive(barrier, 0);
#endif
}
__device__ __forceinline__ void arrive_and_expect(std::uint32_t barrier, int bytes) {
#ifdef __CUDACC__
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
#else
  emulated_arrive(barrier, bytes);
#endif
}
// Waits until the phase of that parity has ended. On a fresh barrier the phase of parity 1 counts as ended. There is no
// trap for a phase that never ends: with a trap, ptxas ignores setmaxnreg (C7512) and spills registers.
__device__ __forceinline__ void await(std::uint32_t barrier, std::uint32_t parity) {
#ifdef __CUDACC__
  std::uint32_t over = 0;
  while (over == 0)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
#else
  emulated_await(barrier, parity);
#endif
}

// ---- Copies to shared memory ---------------------------------------------------------------------------------------
// Boxes of 64 channels and some rows of one sequence of a tensor [batch * sequence, channels]. Rows past the sequence's
// end read as zeros.
#ifdef __CUDACC__
using TensorMap = CUtensorMap;
#else
using TensorMap = EmulatedTensorMap;
#endif

// Starts the copy of the box at (channel, row, sequence). Its bytes count towards the barrier.
__device__ __forceinline__ void copy_box(std::uint32_t to, const TensorMap* map, std::uint32_t barrier, int channel,
                                         int row, int sequence) {
#ifdef __CUDACC__
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(reinterpret_cast<std::uint64_t>(map)), "r"(barrier), "r"(channel), "r"(row), "r"(sequence)
      : "memory");
#else
  emulated_copy_box(to, *map, barrier, channel, row, sequence);
#endif
}
__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
#ifdef __CUDACC__
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<std::uint64_t>(map)) : "memory");
#endif
}

// Copies 4 bytes asynchronously. If `there` is false it writes zeros and does not read `from`.
__device__ __forceinline__ void copy_4(std::uint32_t to, const void* from, bool there) {
#ifdef __CUDACC__
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
#else
  emulated_copy_4(to, from, there);
#endif
}
// Arrives at the barrier once this thread's copies by copy_4 have completed.
__device__ __forceinline__ void arrive_copied(std::uint32_t barrier) {
#ifdef __CUDACC__
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
#else
  emulated_arrive_copied(barrier);
#endif
}

// ---- Threads -------------------------------------------------------------------------------------------------------
// Called by all threads of a warpgroup: changes how many registers each thread has from here on.
template <int Registers> __device__ __forceinline__ void take_registers() {
#ifdef __CUDACC__
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}
template <int Registers> __device__ __forceinline__ void give_registers() {
#ifdef __CUDACC__
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}
// Named barriers 1 to 15 of a block. meet_at waits until `threads` threads have come; threads that call arrive_at
// count, but do not wait.
__device__ __forceinline__ void meet_at(int barrier, int threads) {
#ifdef __CUDACC__
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#else
  emulated_meet_at(barrier, threads);
#endif
}
__device__ __forceinline__ void arrive_at(int barrier, int threads) {
#ifdef __CUDACC__
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#else
  emulated_arrive_at(barrier, threads);
#endif
}

// ---- Host ----------------------------------------------------------------------------------------------------------
// Properties of the calling thread's device.
#ifdef __CUDACC__
inline bool is_hopper() {
  return attribute_of_device(cudaDevAttrComputeCapabilityMajor) == 9 &&
         attribute_of_device(cudaDevAttrComputeCapabilityMinor) == 0;
}
inline int multiprocessors() { return attribute_of_device(cudaDevAttrMultiProcessorCount); }
constexpr std::int64_t cache_bytes = 16 << 20;  // of the L2 cache; the cache holds at least this much

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);
inline EncodeTiled tensor_map_encoder() {  // nullptr if the driver has none
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how;
#if CUDART_VERSION >= 12050
  const auto rc = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &how);
#else
  const auto rc = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &how);
#endif
  return rc == cudaSuccess && how == cudaDriverEntryPointSuccess ? reinterpret_cast<EncodeTiled>(found) : nullptr;
}
#else
inline bool is_hopper() { return emulated_is_hopper(); }
inline int multiprocessors() { return 3; }
constexpr std::int64_t cache_bytes = 160 << 10;
#endif

// Describes x for copies of boxes of `box` rows. x is [batch * sequence, channels] of bf16; it and its rows begin at
// multiples of 16 bytes. Returns false where the device's driver cannot describe it.
inline bool map_of(TensorMap& map, const ConstMat& x, std::int64_t sequence, int box) {
  const auto pitch = static_cast<std::uint64_t>(x.pitch) * 2, length = static_cast<std::uint64_t>(sequence);
#ifdef __CUDACC__
  static const EncodeTiled encode = tensor_map_encoder();
  if (encode == nullptr) return false;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(x.cols), length, static_cast<cuuint64_t>(x.rows) / length};
  const cuuint64_t strides[] = {pitch, pitch * length};
  const cuuint32_t boxes[] = {panel_columns, static_cast<cuuint32_t>(box), 1}, steps[] = {1, 1, 1};
  return encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(x.data), sizes, strides, boxes, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
#else
  return emulated_map_of(map, x.data,
                         {static_cast<std::uint64_t>(x.cols), length, static_cast<std::uint64_t>(x.rows) / length},
                         {pitch, pitch * length}, box);
#endif
}

}  // namespace
}  // namespace trainyard::kernels

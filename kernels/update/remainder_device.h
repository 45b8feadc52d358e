// Up to 8 neighbouring elements whose marks share a byte, on a GPU: one thread has them. Included by *_cuda.cu.
#pragma once

#include "kernels/gpu_device.h"
#include "kernels/update/remainder_args.h"
#include "kernels/update/remainder_bits.h"

namespace trainyard::kernels {
namespace {

// Elements [at + from, at + to) of a part: those of a group. With `whole` they are 8, and each operand is aligned.
struct MarkedGroup {
  std::int64_t at;
  int from, to;
};
template <bool whole>
__device__ __forceinline__ MarkedGroup marked_group(const RemainderPart& part, std::int64_t group, std::int64_t n) {
  if constexpr (whole) {
    return {group * 8, 0, 8};
  } else {
    const std::int64_t at = group * 8 - part.shift, left = n - at;
    return {at, at < 0 ? static_cast<int>(-at) : 0, left < 8 ? static_cast<int>(left) : 8};
  }
}
// Calls body(k) for the elements at + k of a group.
template <bool whole, class Body> __device__ __forceinline__ void over_group(const MarkedGroup& g, const Body& body) {
  if constexpr (whole) {
#pragma unroll
    for (int k = 0; k < 8; ++k) body(k);
  } else {
    for (int k = g.from; k < g.to; ++k) body(k);
  }
}
template <bool whole, class T>
__device__ __forceinline__ void get_group(Vec<T, 8>& to, const T* from, const MarkedGroup& g) {
  if constexpr (whole) to = vec_at<8>(from + g.at);
  else over_group<false>(g, [&](int k) { to.v[k] = from[g.at + k]; });
}
template <bool whole, class T>
__device__ __forceinline__ void put_group(T* to, const Vec<T, 8>& from, const MarkedGroup& g) {
  if constexpr (whole) put_vec(to + g.at, from);
  else over_group<false>(g, [&](int k) { to[g.at + k] = from.v[k]; });
}

// Working copies and remainder of a group.
struct MasterGroup {
  Vec<b16, 8> working;
  Vec<std::uint16_t, 8> low;
  unsigned marks;

  __device__ __forceinline__ float master(int k) const {
    return __uint_as_float(master_bits(working.v[k].bits, low.v[k], (marks >> k & 1u) != 0));
  }
  __device__ __forceinline__ void set(int k, float master) {
    const unsigned bits = __float_as_uint(master);
    store(&working.v[k], master);
    low.v[k] = static_cast<std::uint16_t>(bits);
    const unsigned bit = 1u << k;
    marks = needs_mark(bits, working.v[k].bits) ? marks | bit : marks & ~bit;
  }
};
template <bool whole> __device__ __forceinline__ MasterGroup master_group(const b16* working, const RemainderPart& part,
                                                                          std::int64_t group, const MarkedGroup& g) {
  MasterGroup m;
  get_group<whole>(m.working, working, g);
  get_group<whole>(m.low, const_cast<const std::uint16_t*>(part.low), g);
  m.marks = part.marks[group];
  return m;
}
template <bool whole> __device__ __forceinline__ void put_master_group(b16* working, const RemainderPart& part,
                                                                       std::int64_t group, const MarkedGroup& g,
                                                                       const MasterGroup& m) {
  put_group<whole>(working, m.working, g);
  put_group<whole>(part.low, m.low, g);
  part.marks[group] = static_cast<std::uint8_t>(m.marks);
}

// Whether every group of n elements is whole, and operands of 2 bytes at these addresses are aligned.
inline bool in_groups_of_marks(const RemainderPart& part, const void* working, std::int64_t n) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return part.shift == 0 && n % 8 == 0 && aligned(working) && aligned(part.low);
}

}  // namespace
}  // namespace trainyard::kernels

// Exact squares, split into 32-bit digits. Integers are added, so the order of threads and blocks does not matter.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

#include <algorithm>

namespace trainyard::kernels {
namespace {

using Limb = unsigned long long;

__global__ void clear_limbs_kernel(std::int64_t* limbs) {
  if (threadIdx.x < square_sum_limbs) limbs[threadIdx.x] = 0;
}

// v^2 is the square of a mantissa below 2^24, `place` bits above the lowest bit of digit 0, which counts 2^-320. The
// place is twice the exponent of v plus a constant. From any place the square reaches into three digits.
struct Square {
  Limb square;
  unsigned place;
};
__device__ __forceinline__ Square square_of(unsigned magnitude) {  // the bits of |v|, finite
  const unsigned exponent = magnitude >> 23;
  const unsigned mantissa = exponent == 0 ? magnitude : (magnitude & 0x7fffffu) | 0x800000u;
  return {static_cast<Limb>(mantissa) * mantissa, 2 * (exponent == 0 ? 1 : exponent) + 20};  // v: m 2^(exponent - 150)
}

// Adds to the digits that the block shares; counts a value that is not finite.
__device__ void add_apart(unsigned magnitude, Limb* sums) {
  if (magnitude >= 0x7f800000u) {
    atomicAdd(&sums[square_sum_limbs - 1], Limb{1});
  } else if (magnitude != 0) {
    const auto [square, place] = square_of(magnitude);
    const Limb low = square << place % 32;
    atomicAdd(&sums[place / 32], low & 0xffffffffu);
    atomicAdd(&sums[place / 32 + 1], low >> 32);
    atomicAdd(&sums[place / 32 + 2], square >> 32 >> (32 - place % 32));
  }
}

// A thread keeps four digits in registers: those reached by squares that begin in digit `first` or `first` + 1. These
// are 32 exponents of v. A greater v moves the window up; a smaller v goes directly to the shared digits.
struct Window {
  static constexpr int digits = 4;
  unsigned first = 0;
  Limb own[digits] = {};

  __device__ __forceinline__ void add(float v, Limb* sums) {
    const unsigned magnitude = __float_as_uint(v) & 0x7fffffffu;
    // Bits above the window's lowest bit; wraps around for a place below the window.
    const unsigned above = 2 * (magnitude >> 23) + 20 - 32 * first;
    if (above >= 64 || magnitude < 0x800000u || magnitude >= 0x7f800000u) {
      if (magnitude == 0) return;
      if (magnitude >= 0x7f800000u || static_cast<int>(above) < 64) return add_apart(magnitude, sums);
      flush(sums);
      first = square_of(magnitude).place / 32 - 1;
      return add(v, sums);
    }
    const unsigned mantissa = (magnitude & 0x7fffffu) | 0x800000u;  // of a normal v; square_of also takes others
    const Limb square = static_cast<Limb>(mantissa) * mantissa, low = square << above % 32;
    const unsigned a = static_cast<unsigned>(low), b = static_cast<unsigned>(low >> 32),
                   c = static_cast<unsigned>(square >> 32 >> (32 - above % 32));
    const bool second = above >= 32;
    own[0] += second ? 0 : a;
    own[1] += second ? a : b;
    own[2] += second ? b : c;
    own[3] += second ? c : 0;
  }

  __device__ void flush(Limb* sums) {
    for (int d = 0; d < digits; ++d) {
      if (own[d] != 0) atomicAdd(&sums[first + static_cast<unsigned>(d)], own[d]);
      own[d] = 0;
    }
  }

  // At the end, lanes that have the same window add up in the warp first.
  __device__ void flush_warp(Limb* sums) {
    const int top = warp_max(static_cast<int>(first)), low = -warp_max(-static_cast<int>(first));
    if (top == low)
      for (int d = 0; d < digits; ++d) {
        const Limb sum = warp_sum(own[d]);
        own[d] = threadIdx.x % 32 == 0 ? sum : 0;
      }
    flush(sums);
  }
};

template <int V> __global__ void __launch_bounds__(row_threads) square_sum_kernel(SquareSumGpuArgs a) {
  __shared__ Limb sums[square_sum_limbs];
  if (threadIdx.x < square_sum_limbs) sums[threadIdx.x] = 0;
  __syncthreads();
  Window window;
  TRAINYARD_EACH(group, a.n / V) {
    const auto x = vec_at<V>(a.x + group * V);
#pragma unroll
    for (int k = 0; k < V; ++k) window.add(x.v[k], sums);
  }
  if (blockIdx.x == 0 && threadIdx.x < a.n % V) window.add(a.x[a.n - 1 - threadIdx.x], sums);
  window.flush_warp(sums);
  __syncthreads();
  if (threadIdx.x < square_sum_limbs && sums[threadIdx.x] != 0)
    atomicAdd(reinterpret_cast<Limb*>(a.limbs) + threadIdx.x, sums[threadIdx.x]);
}

// Launched as one warp: each lane adds up the low and high halves of one digit, which cannot overflow. Then one lane
// carries.
__global__ void square_sum_total_kernel(SquareSumTotalArgs a) {
  __shared__ std::int64_t low[32], high[32];
  const int l = static_cast<int>(threadIdx.x);
  std::int64_t below = 0, above = 0;
  if (l < square_sum_limbs)
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const std::int64_t digit = a.limbs[r * square_sum_limbs + l];
      below += digit & 0xffffffff;
      above += digit >> 32;
    }
  low[l] = below;
  high[l] = above;
  __syncthreads();
  if (l != 0) return;
  constexpr int count = square_sum_limbs - 1;  // the limb behind the digits is a count, which is not carried
  std::int64_t carry = 0;
  for (int i = 0; i < count; ++i) {
    const std::int64_t sum = low[i] + (i > 0 ? high[i - 1] : 0) + carry;
    a.total[i] = i + 1 < count ? sum & 0xffffffff : sum + (high[i] << 32);
    carry = sum >> 32;
  }
  a.total[count] = low[count] + (high[count] << 32);
}

}  // namespace

const char* gpu::square_sum_total(const SquareSumTotalArgs& a, void* stream) {
  TRAINYARD_LAUNCH(square_sum_total_kernel, true, 1, 32, stream, a);
  return launch_failure();
}

const char* gpu::square_sum(const SquareSumGpuArgs& a, void* stream) {
  TRAINYARD_LAUNCH(clear_limbs_kernel, false, 1, 32, stream, a.limbs);
  constexpr auto one = square_sum_kernel<1>, many = square_sum_kernel<vector_of<float>>;
  const bool grouped = reinterpret_cast<std::uintptr_t>(a.x) % sizeof(Vec<float, vector_of<float>>) == 0;
  const auto kernel = grouped ? many : one;
  // Few enough blocks to be on the device together, so that the work at the end of each block stays small.
  const auto blocks = std::min(blocks_for(grouped ? a.n / vector_of<float> : a.n), 1024u);
  TRAINYARD_LAUNCH(kernel, true, blocks, row_threads, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels

// Exact squares, split into 32-bit digits. Integers are added, so the order of threads and blocks does not matter.
#include "kernels/gpu_entries.h"
#include "kernels/square_sum/square_window_device.h"

#include <algorithm>

namespace trainyard::kernels {
namespace {

__global__ void clear_limbs_kernel(std::int64_t* limbs) {
  if (threadIdx.x < square_sum_limbs) limbs[threadIdx.x] = 0;
}

template <int V> __global__ void __launch_bounds__(row_threads) square_sum_kernel(SquareSumGpuArgs a) {
  __shared__ Limb sums[square_sum_limbs];
  if (threadIdx.x < square_sum_limbs) sums[threadIdx.x] = 0;
  __syncthreads();
  SquareWindow window;
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

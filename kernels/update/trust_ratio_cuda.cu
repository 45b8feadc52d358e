// Squares of parameters and of their updates, and the ratio of their norms. Only integers are added, so the order of
// threads and blocks does not matter.
#include "kernels/gpu_entries.h"
#include "kernels/square_sum/square_window_device.h"
#include "kernels/update/rounded_device.h"

#include <algorithm>

namespace trainyard::kernels {
namespace {

__device__ __forceinline__ float update_of_element(const UpdateSquaresArgs& a, float p, float m, float v) {
  using F = RoundedFloat;
  UpdatedElement<F, 2> e;
  e.parameter = F(p);
  e.states[0] = F(m);
  e.states[1] = F(v);
  e.decay = F(a.weight_decay);
  return a.sequence.update_of(e).v;
}

// S is the type of the states. Each thread takes V neighbouring elements at a time.
template <class S, int V> __global__ void __launch_bounds__(row_threads) update_squares_kernel(UpdateSquaresArgs a) {
  __shared__ Limb sums[2 * square_sum_limbs];
  if (threadIdx.x < 2 * square_sum_limbs) sums[threadIdx.x] = 0;
  __syncthreads();
  const auto* parameters = a.parameter.ptr<float>();
  const auto *first = a.m.ptr<S>(), *second = a.v.ptr<S>();
  SquareWindow of_parameter, of_update;
  Limb* const updates = sums + square_sum_limbs;
  TRAINYARD_EACH(group, a.n / V) {
    const auto p = vec_at<V>(parameters + group * V);
    const auto m = vec_at<V>(first + group * V), v = vec_at<V>(second + group * V);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      of_parameter.add(p.v[k], sums);
      of_update.add(update_of_element(a, p.v[k], widen(m.v[k]), widen(v.v[k])), updates);
    }
  }
  if (blockIdx.x == 0 && threadIdx.x < a.n % V) {
    const std::int64_t i = a.n - 1 - threadIdx.x;
    of_parameter.add(parameters[i], sums);
    of_update.add(update_of_element(a, parameters[i], widen(first[i]), widen(second[i])), updates);
  }
  of_parameter.flush_warp(sums);
  of_update.flush_warp(updates);
  __syncthreads();
  if (threadIdx.x < 2 * square_sum_limbs && sums[threadIdx.x] != 0)
    atomicAdd(reinterpret_cast<Limb*>(a.squares) + threadIdx.x, sums[threadIdx.x]);
}

__global__ void update_carry_kernel(CarrySquaresArgs a) {
  TRAINYARD_EACH(sum, a.sums) { carry_digits(a.squares + sum * square_sum_limbs); }
}

__global__ void update_ratios_kernel(TrustRatiosArgs a) {
  TRAINYARD_EACH(row, a.rows) { a.ratios[row] = trust_ratio(a.squares + row * 2 * square_sum_limbs); }
}

}  // namespace

const char* gpu::update_squares(const UpdateSquaresArgs& a, void* stream) {
  with_type_of_states(a.m.type, [&]<class S>(S*) {
    constexpr int V = vector_of<float>;
    constexpr auto one = update_squares_kernel<S, 1>, many = update_squares_kernel<S, V>;
    const auto states = reinterpret_cast<std::uintptr_t>(a.m.data) | reinterpret_cast<std::uintptr_t>(a.v.data);
    const bool grouped = reinterpret_cast<std::uintptr_t>(a.parameter.data) % sizeof(Vec<float, V>) == 0 &&
                         states % sizeof(Vec<S, V>) == 0;
    const auto kernel = grouped ? many : one;
    // Few enough blocks to be on the device together, so that the work at the end of each block stays small.
    const auto blocks = std::min(blocks_for(grouped ? a.n / V : a.n), 1024u);
    TRAINYARD_LAUNCH(kernel, true, blocks, row_threads, stream, a);
  });
  return launch_failure();
}

const char* gpu::update_carry(const CarrySquaresArgs& a, void* stream) {
  TRAINYARD_LAUNCH(update_carry_kernel, false, blocks_for(a.sums), 256, stream, a);
  return launch_failure();
}

const char* gpu::update_ratios(const TrustRatiosArgs& a, void* stream) {
  TRAINYARD_LAUNCH(update_ratios_kernel, false, blocks_for(a.rows), 256, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels

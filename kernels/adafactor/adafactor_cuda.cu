// Adafactor's passes with every f32 operation rounded on its own. Only integers are added in any order.
#include "kernels/gpu_entries.h"
#include "kernels/square_sum/square_window_device.h"
#include "kernels/update/rounded_device.h"

#include <algorithm>

namespace trainyard::kernels {
namespace {

__device__ __forceinline__ bool changes_nothing(const StepNumbers* numbers) {
  return numbers != nullptr && numbers->finite == 0;
}
__device__ __forceinline__ float scale_of(const StepNumbers* numbers, float otherwise) {
  return numbers != nullptr ? numbers->gradient_scale : otherwise;
}
__device__ __forceinline__ Limb* limbs_of(std::int64_t* lines, std::int64_t line) {
  return reinterpret_cast<Limb*>(lines) + line * square_sum_limbs;
}

constexpr std::int64_t run_of_warp = 2048;  // elements of a row that a warp adds at a time

// A warp adds up to run_of_warp elements of one row.
__global__ void __launch_bounds__(row_threads) adafactor_rows_kernel(AdafactorLinesArgs a) {
  __shared__ Limb sums[row_threads / 32][square_sum_limbs];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (changes_nothing(a.numbers)) return;
  const float scale = scale_of(a.numbers, a.scale);
  Limb* const own = sums[warp];
  if (lane < square_sum_limbs) own[lane] = 0;
  __syncwarp();
  const std::int64_t runs = (a.cols + run_of_warp - 1) / run_of_warp, first_row = a.first / a.cols,
                     rows = (a.first + a.n - 1) / a.cols - first_row + 1;
  for (std::int64_t u = static_cast<std::int64_t>(blockIdx.x) * (row_threads / 32) + warp; u < rows * runs;
       u += static_cast<std::int64_t>(gridDim.x) * (row_threads / 32)) {
    const auto [line, run] = place_of(u, runs);
    const std::int64_t begin = (first_row + line) * a.cols - a.first + run * run_of_warp;  // of the part
    const std::int64_t length = a.cols - run * run_of_warp < run_of_warp ? a.cols - run * run_of_warp : run_of_warp;
    const std::int64_t from = begin < 0 ? 0 : begin, end = begin + length < a.n ? begin + length : a.n;
    SquareWindow window;
    for (std::int64_t i = from + lane; i < end; i += 32) window.add(__fmul_rn(a.gradient[i], scale), own);
    window.flush_warp(own);
    __syncwarp();
    if (lane < square_sum_limbs) {
      if (own[lane] != 0) atomicAdd(limbs_of(a.rows, first_row + line) + lane, own[lane]);
      own[lane] = 0;
    }
    __syncwarp();
  }
}

// A thread adds `down` rows of one column; neighbouring threads have neighbouring columns.
__global__ void adafactor_columns_kernel(AdafactorLinesArgs a, std::int64_t down) {
  if (changes_nothing(a.numbers)) return;
  const float scale = scale_of(a.numbers, a.scale);
  const std::int64_t first_row = a.first / a.cols, rows = (a.first + a.n - 1) / a.cols - first_row + 1;
  TRAINYARD_EACH(unit, (rows + down - 1) / down * a.cols) {
    const auto [strip, column] = place_of(unit, a.cols);
    const std::int64_t top = (strip + 1) * down < rows ? (strip + 1) * down : rows;
    std::int64_t at = (first_row + strip * down) * a.cols + column - a.first;  // of the part
    Limb* const limbs = limbs_of(a.columns, column);
    SquareWindow window;
    for (std::int64_t r = strip * down; r < top; ++r, at += a.cols)
      if (at >= 0 && at < a.n) window.add(__fmul_rn(a.gradient[at], scale), limbs);
    window.flush(limbs);
  }
}

__global__ void adafactor_lines_kernel(AdafactorFactorsArgs a) {
  if (changes_nothing(a.numbers)) return;
  TRAINYARD_EACH(line, a.rows + a.cols) { update_line(a, line); }
}

// Each block computes the mean, in the order of update_lines, and some of the factors.
__global__ void __launch_bounds__(mean_parts) adafactor_row_factors_kernel(AdafactorFactorsArgs a) {
  __shared__ double parts[mean_parts];
  __shared__ double mean;
  if (changes_nothing(a.numbers)) return;
  double part = 0;
  for (std::int64_t i = threadIdx.x; i < a.rows; i += mean_parts) part += static_cast<double>(a.row_var[i]);
  parts[threadIdx.x] = part;
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (const double p : parts) sum += p;
    mean = sum / static_cast<double>(a.rows);
  }
  __syncthreads();
  TRAINYARD_EACH(i, a.rows) { a.row_factors[i] = row_factor(mean, a.row_var[i]); }
}

// The factors of V neighbouring elements of one row.
template <int V> struct Factors {
  float scale = 1, row = 0;
  Vec<float, V> columns = {};
  __device__ __forceinline__ RoundedFloat direction(float gradient, int k) const {
    using F = RoundedFloat;
    return F(gradient) * F(scale) * F(row) * F(columns.v[k]);
  }
};
template <int V, class Args>
__device__ __forceinline__ Factors<V> factors_at(const Args& a, std::int64_t at, float scale) {
  const auto [row, group] = place_of((a.first + at) / V, a.cols / V);
  Factors<V> factors{scale, a.row_factors[row], {}};
#pragma unroll
  for (int k = 0; k < V; ++k) factors.columns.v[k] = a.column_factors[group * V + k];
  return factors;
}

template <int V> __global__ void __launch_bounds__(row_threads) adafactor_squares_kernel(AdafactorSquaresArgs a) {
  __shared__ Limb sums[2 * square_sum_limbs];
  if (changes_nothing(a.numbers)) return;
  if (threadIdx.x < 2 * square_sum_limbs) sums[threadIdx.x] = 0;
  __syncthreads();
  const float scale = scale_of(a.numbers, a.scale);
  SquareWindow of_parameter, of_update;
  Limb* const updates = sums + square_sum_limbs;
  const auto add = [&]<int N>(std::int64_t at, const Vec<float, N>& p, const Vec<float, N>& g) {
    const auto factors = factors_at<N>(a, at, scale);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      of_parameter.add(p.v[k], sums);
      of_update.add(factors.direction(g.v[k], k).v, updates);
    }
  };
  TRAINYARD_EACH(group, a.n / V) {
    add(group * V, vec_at<V>(a.parameter + group * V), vec_at<V>(a.gradient + group * V));
  }
  if (blockIdx.x == 0 && threadIdx.x < a.n % V) {
    const std::int64_t i = a.n - 1 - threadIdx.x;
    add(i, vec_at<1>(a.parameter + i), vec_at<1>(a.gradient + i));
  }
  of_parameter.flush_warp(sums);
  of_update.flush_warp(updates);
  __syncthreads();
  if (threadIdx.x < 2 * square_sum_limbs && sums[threadIdx.x] != 0)
    atomicAdd(reinterpret_cast<Limb*>(a.squares) + threadIdx.x, sums[threadIdx.x]);
}

// Updates N neighbouring elements of one row. W is the type of the working copy, where there is one.
template <class W, int N> __device__ __forceinline__ void adafactor_elements(const AdafactorUpdateArgs& a,
                                                                             std::int64_t at, float scale,
                                                                             float step_size) {
  using F = RoundedFloat;
  const auto factors = factors_at<N>(a, at, scale);
  const auto gradient = vec_at<N>(a.gradient + at);
  auto p = vec_at<N>(a.parameter + at);
  Vec<W, N> narrow;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    p.v[k] = (F(p.v[k]) * F(a.keep) - F(step_size) * factors.direction(gradient.v[k], k)).v;
    store(&narrow.v[k], p.v[k]);
  }
  put_vec(a.parameter + at, p);
  if (!a.working.empty()) put_vec(static_cast<W*>(a.working.data) + at, narrow);
}

template <class W, int V> __global__ void adafactor_update_kernel(AdafactorUpdateArgs a) {
  __shared__ float step_size;
  if (changes_nothing(a.numbers)) return;
  if (threadIdx.x == 0) step_size = adafactor_step_size(a.size, a.squares);
  __syncthreads();
  const float scale = scale_of(a.numbers, a.scale);
  TRAINYARD_EACH(group, a.n / V) { adafactor_elements<W, V>(a, group * V, scale, step_size); }
  if (blockIdx.x == 0 && threadIdx.x < a.n % V) adafactor_elements<W, 1>(a, a.n - 1 - threadIdx.x, scale, step_size);
}

// Whether groups of four lie in one row and at aligned addresses. Column factors lie anywhere: those of a parameter
// follow the single one of each vector before it.
template <class Args> bool in_fours(const Args& a) {
  const auto address = reinterpret_cast<std::uintptr_t>(a.gradient) | reinterpret_cast<std::uintptr_t>(a.parameter);
  return a.cols % 4 == 0 && a.first % 4 == 0 && address % sizeof(Vec<float, 4>) == 0;
}

// Few enough blocks to be on the device together, so that the work at the begin and end of each block stays small.
unsigned few_blocks(std::int64_t threads) { return std::min(blocks_for(threads), 1024u); }

}  // namespace

const char* gpu::adafactor_lines(const AdafactorLinesArgs& a, void* stream) {
  const std::int64_t rows = (a.first + a.n - 1) / a.cols - a.first / a.cols + 1;
  const std::int64_t warps = rows * ((a.cols + run_of_warp - 1) / run_of_warp);
  TRAINYARD_LAUNCH(adafactor_rows_kernel, true, few_blocks(warps * 32), row_threads, stream, a);
  // About 2^18 threads, with at least 32 rows each: a thread ends with up to four additions in memory.
  const std::int64_t down = std::max<std::int64_t>(32, rows * a.cols >> 18);
  TRAINYARD_LAUNCH(adafactor_columns_kernel, false, blocks_for((rows + down - 1) / down * a.cols), 256, stream, a,
                   down);
  return launch_failure();
}

const char* gpu::adafactor_factors(const AdafactorFactorsArgs& a, void* stream) {
  TRAINYARD_LAUNCH(adafactor_lines_kernel, false, blocks_for(a.rows + a.cols), 256, stream, a);
  if (!a.vector) {
    const auto blocks = std::min(blocks_for(a.rows), 32u);
    TRAINYARD_LAUNCH(adafactor_row_factors_kernel, true, blocks, mean_parts, stream, a);
  }
  return launch_failure();
}

const char* gpu::adafactor_squares(const AdafactorSquaresArgs& a, void* stream) {
  constexpr auto one = adafactor_squares_kernel<1>, many = adafactor_squares_kernel<4>;
  const bool grouped = in_fours(a);
  const auto kernel = grouped ? many : one;
  TRAINYARD_LAUNCH(kernel, true, few_blocks(grouped ? a.n / 4 : a.n), row_threads, stream, a);
  return launch_failure();
}

const char* gpu::adafactor_update(const AdafactorUpdateArgs& a, void* stream) {
  const bool grouped = in_fours(a) && reinterpret_cast<std::uintptr_t>(a.working.data) % 8 == 0;
  with_narrow_type(a.working.type, [&]<class W>(W*) {
    constexpr auto one = adafactor_update_kernel<W, 1>, many = adafactor_update_kernel<W, 4>;
    const auto kernel = grouped ? many : one;
    TRAINYARD_LAUNCH(kernel, true, few_blocks(grouped ? a.n / 4 : a.n), 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

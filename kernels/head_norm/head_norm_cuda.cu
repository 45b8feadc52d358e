// Norms of queries and keys: a warp for each sum over a slice of a row, a thread for each element of a result. Weight
// gradients are summed by fixed blocks of rows, as on the CPU.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels {
namespace {

constexpr int head_norm_warps = row_threads / 32;

template <class T> __global__ void __launch_bounds__(row_threads) head_norm_sums_kernel(HeadNormSumsArgs a) {
  using G = compute_t<T>;
  const std::int64_t slices = a.out.rows, n = a.x.cols / slices,
                     i = static_cast<std::int64_t>(blockIdx.x) * head_norm_warps + threadIdx.x / 32;
  if (i >= a.x.rows * slices) return;
  const auto [r, s] = place_of(i, slices);
  const T* x = a.x.row<T>(r) + s * n;
  G sum = 0;
  if (a.dy.empty()) {
    for (std::int64_t c = threadIdx.x % 32; c < n; c += 32) {
      const G v = widen(x[c]);
      sum += v * v;
    }
  } else {
    const T *dy = a.dy.row<T>(r) + s * n, *weight = a.weight.ptr<T>();
    for (std::int64_t c = threadIdx.x % 32; c < n; c += 32) {
      const G w = static_cast<G>(widen(weight[(s * n + c) % a.weight.cols])) + static_cast<G>(a.offset);
      sum += static_cast<G>(widen(dy[c])) * w * static_cast<G>(widen(x[c]));
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) a.out.row<G>(s)[r] = sum;
}

// Where an element is: its row, its column, the weight that it has, and its group.
struct HeadNormPlace {
  std::int64_t r, c, weight, group;
};
template <class Args> __device__ __forceinline__ HeadNormPlace head_norm_place(const Args& a, std::int64_t i) {
  const auto [r, c] = place_of(i, a.x.cols);
  const auto [run, weight] = place_of(c, a.weight.cols);
  return {r, c, weight, a.squares.rows == 1 ? 0 : run};
}
template <class G, class Args>
__device__ __forceinline__ G head_norm_rstd(const Args& a, std::int64_t group, std::int64_t r) {
  const G mean = a.squares.template row<G>(group)[r] / static_cast<G>(a.width);
  return G(1) / sqrt_of(mean + static_cast<G>(a.epsilon));
}

template <class T> __global__ void head_norm_forward_kernel(HeadNormForwardArgs a) {
  using G = compute_t<T>;
  TRAINYARD_EACH(i, a.x.rows * a.x.cols) {
    const auto at = head_norm_place(a, i);
    const G weight = static_cast<G>(widen(a.weight.ptr<T>()[at.weight])) + static_cast<G>(a.offset);
    store(a.y.row<T>(at.r) + at.c,
          static_cast<G>(widen(a.x.row<T>(at.r)[at.c])) * head_norm_rstd<G>(a, at.group, at.r) * weight);
  }
}

// The sums of one weight over a block of rows and over the heads of a slice.
template <class T> __global__ void head_norm_partial_kernel(HeadNormBackwardArgs a) {
  using G = compute_t<T>;
  const std::int64_t w = a.weight.cols, slices = a.dweight.rows, blocks = a.partials.rows / slices,
                     runs = a.x.cols / w / slices;
  TRAINYARD_EACH(i, a.partials.rows * w) {
    const auto [row, c] = place_of(i, w);
    const auto [s, b] = place_of(row, blocks);
    const auto end = (b + 1) * plan::column_sum_rows < a.x.rows ? (b + 1) * plan::column_sum_rows : a.x.rows;
    G sum = 0;
    for (auto r = b * plan::column_sum_rows; r < end; ++r)
#pragma unroll 4
      for (auto run = s * runs; run < (s + 1) * runs; ++run) {
        const G rstd = head_norm_rstd<G>(a, a.squares.rows == 1 ? 0 : run, r);
        const auto at = run * w + c;
        sum += static_cast<G>(widen(a.dy.row<T>(r)[at])) * (static_cast<G>(widen(a.x.row<T>(r)[at])) * rstd);
      }
    a.partials.row<G>(row)[c] = sum;
  }
}

template <class G> __global__ void head_norm_weight_kernel(HeadNormBackwardArgs a) {
  const std::int64_t slices = a.dweight.rows, blocks = a.partials.rows / slices;
  TRAINYARD_EACH(i, slices * a.weight.cols) {
    const auto [s, c] = place_of(i, a.weight.cols);
    G sum = 0;
    for (std::int64_t b = 0; b < blocks; ++b) sum += a.partials.row<G>(s * blocks + b)[c];
    a.dweight.row<G>(s)[c] = sum;
  }
}

// Runs after the partial sums, because dx may be dy.
template <class T> __global__ void head_norm_backward_kernel(HeadNormBackwardArgs a) {
  using G = compute_t<T>;
  TRAINYARD_EACH(i, a.x.rows * a.x.cols) {
    const auto at = head_norm_place(a, i);
    const G weight = static_cast<G>(widen(a.weight.ptr<T>()[at.weight])) + static_cast<G>(a.offset),
            rstd = head_norm_rstd<G>(a, at.group, at.r),
            along = a.dots.row<G>(at.group)[at.r] * rstd / static_cast<G>(a.width);
    const G d = widen(a.dy.row<T>(at.r)[at.c]), v = widen(a.x.row<T>(at.r)[at.c]);
    store(a.dx.row<T>(at.r) + at.c, rstd * (d * weight - v * rstd * along));
  }
}

}  // namespace

const char* gpu::head_norm_sums(const HeadNormSumsArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    const auto warps = a.x.rows * a.out.rows;
    TRAINYARD_LAUNCH(head_norm_sums_kernel<T>, true,
                     static_cast<unsigned>((warps + head_norm_warps - 1) / head_norm_warps), row_threads, stream, a);
  });
  return launch_failure();
}

const char* gpu::head_norm_forward(const HeadNormForwardArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    TRAINYARD_LAUNCH(head_norm_forward_kernel<T>, false, blocks_for(a.x.rows * a.x.cols), 256, stream, a);
  });
  return launch_failure();
}

const char* gpu::head_norm_backward(const HeadNormBackwardArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    TRAINYARD_LAUNCH(head_norm_partial_kernel<T>, false, blocks_for(a.partials.rows * a.weight.cols), 256, stream, a);
    TRAINYARD_LAUNCH(head_norm_weight_kernel<G>, false, blocks_for(a.dweight.rows * a.weight.cols), 256, stream, a);
    TRAINYARD_LAUNCH(head_norm_backward_kernel<T>, false, blocks_for(a.x.rows * a.x.cols), 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

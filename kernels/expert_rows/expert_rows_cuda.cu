// Rows of experts by groups of neighbouring channels. Where channels are added up, each row has one warp. Copies and
// sums have the bits of the CPU.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T, int V> __global__ void expert_dispatch_kernel(ExpertDispatchArgs a) {
  const std::int64_t groups = a.y.cols / V;
  TRAINYARD_EACH(i, a.y.rows * groups) {
    const auto [r, g] = place_of(i, groups);
    const auto source = a.sources[r];
    if (source >= 0) put_vec(a.y.row<T>(r) + g * V, vec_at<V>(a.x.row<T>(source / a.top_k) + g * V));
  }
}

template <class T, int V> __global__ void expert_sum_kernel(ExpertSumArgs a) {
  using G = compute_t<T>;
  const std::int64_t groups = a.out.cols / V;
  TRAINYARD_EACH(i, a.out.rows * groups) {
    const auto [s, g] = place_of(i, groups);
    Vec<G, V> sum{};
    if (!a.add.empty()) sum = vec_at<V>(a.add.row<G>(s) + g * V);
    const auto* rows = a.rows.row<std::int32_t>(s);
    for (std::int64_t j = 0; j < a.rows.cols; ++j) {
      if (rows[j] < 0) continue;
      const auto y = vec_at<V>(a.y.row<T>(rows[j]) + g * V);
      const G weight = a.weights.empty() ? G(1) : a.weights.row<G>(s)[j];  // a product by 1 changes no bit
      for (int k = 0; k < V; ++k) sum.v[k] += rounded_product(weight, widen(y.v[k]));
    }
    Vec<T, V> out;
    for (int k = 0; k < V; ++k) store(&out.v[k], sum.v[k]);
    put_vec(a.out.row<T>(s) + g * V, out);
  }
}

template <class G> __global__ void expert_no_slopes_kernel(ExpertCombineBackwardArgs a) {
  TRAINYARD_EACH(i, a.rows.rows * a.rows.cols) {
    const auto [s, j] = place_of(i, a.rows.cols);
    if (a.rows.row<std::int32_t>(s)[j] < 0) a.d_weights.row<G>(s)[j] = 0;
  }
}

// A lane reads its groups of y before it writes the same groups of dy, which may overlap them.
template <class T, int V> __global__ void __launch_bounds__(row_threads)
    expert_combine_backward_kernel(ExpertCombineBackwardArgs a) {
  using G = compute_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * (row_threads / 32) + threadIdx.x / 32;
  if (r >= a.y.rows || a.sources[r] < 0) return;  // the same for the whole warp
  const auto [s, j] = place_of(a.sources[r], a.rows.cols);
  const T *dout = a.dout.row<T>(s), *y = a.y.row<T>(r);
  T* dy = a.dy.row<T>(r);
  const G weight = a.weights.row<G>(s)[j];
  G sum = 0;
  for (std::int64_t g = threadIdx.x % 32; g < a.y.cols / V; g += 32) {
    const auto slope = vec_at<V>(dout + g * V), value = vec_at<V>(y + g * V);
    Vec<T, V> out;
    for (int k = 0; k < V; ++k) {
      sum += widen(slope.v[k]) * widen(value.v[k]);
      store(&out.v[k], rounded_product(weight, widen(slope.v[k])));
    }
    put_vec(dy + g * V, out);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) a.d_weights.row<G>(s)[j] = sum;
}

}  // namespace

const char* gpu::expert_dispatch(const ExpertDispatchArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    constexpr auto one = expert_dispatch_kernel<T, 1>, many = expert_dispatch_kernel<T, vector_of<T>>;
    const bool grouped = in_groups(vector_of<T>, a.x, a.y);
    const auto kernel = grouped ? many : one;
    TRAINYARD_LAUNCH(kernel, false, blocks_for(a.y.rows * a.y.cols / (grouped ? vector_of<T> : 1)), 256, stream, a);
  });
  return launch_failure();
}

const char* gpu::expert_sum(const ExpertSumArgs& a, void* stream) {
  with_type(a.out.type, [&]<class T>(T*) {
    constexpr auto one = expert_sum_kernel<T, 1>, many = expert_sum_kernel<T, vector_of<T>>;
    const bool grouped = in_groups(vector_of<T>, a.y, a.add, a.out);
    const auto kernel = grouped ? many : one;
    TRAINYARD_LAUNCH(kernel, false, blocks_for(a.out.rows * a.out.cols / (grouped ? vector_of<T> : 1)), 256, stream, a);
  });
  return launch_failure();
}

const char* gpu::expert_combine_backward(const ExpertCombineBackwardArgs& a, void* stream) {
  with_type(a.dout.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    TRAINYARD_LAUNCH(expert_no_slopes_kernel<G>, false, blocks_for(a.rows.rows * a.rows.cols), 256, stream, a);
    if (a.y.rows == 0) return;
    constexpr auto one = expert_combine_backward_kernel<T, 1>, many = expert_combine_backward_kernel<T, vector_of<T>>;
    const auto kernel = in_groups(vector_of<T>, a.dout, a.y, a.dy) ? many : one;
    const auto grid = static_cast<unsigned>((a.y.rows + row_threads / 32 - 1) / (row_threads / 32));
    TRAINYARD_LAUNCH(kernel, true, grid, row_threads, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

// Column sums in the CPU's order: first blocks of rows, a few columns for each thread, then the blocks in ascending
// order.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels {
namespace {

template <class T, int V> __global__ void partial_kernel(ColumnSumArgs a) {
  using G = compute_t<T>;
  const std::int64_t groups = a.x.cols / V;
  TRAINYARD_EACH(i, a.partials.rows * groups) {
    const auto [b, g] = place_of(i, groups);
    const auto end = (b + 1) * plan::column_sum_rows < a.x.rows ? (b + 1) * plan::column_sum_rows : a.x.rows;
    Vec<G, V> sum{};
#pragma unroll 8
    for (auto r = b * plan::column_sum_rows; r < end; ++r) {
      const auto x = vec_at<V>(a.x.row<T>(r) + g * V);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += widen(x.v[k]);
    }
    put_vec(a.partials.row<G>(b) + g * V, sum);
  }
}

template <class G> __global__ void total_kernel(ColumnSumArgs a) {
  TRAINYARD_EACH(c, a.x.cols) {
    G sum = a.partials.row<G>(0)[c];
    for (std::int64_t b = 1; b < a.partials.rows; ++b) sum += a.partials.row<G>(b)[c];
    a.sums.ptr<G>()[c] = sum;
  }
}

}  // namespace

const char* gpu::column_sum(const ColumnSumArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    constexpr auto one = partial_kernel<T, 1>, many = partial_kernel<T, summed_columns<T>>;
    const bool grouped = in_groups(summed_columns<T>, a.x, a.partials);
    const auto partial = grouped ? many : one;
    const auto threads = a.partials.rows * a.x.cols / (grouped ? summed_columns<T> : 1);
    TRAINYARD_LAUNCH(partial, false, blocks_for(threads), 256, stream, a);
    TRAINYARD_LAUNCH(total_kernel<G>, false, blocks_for(a.x.cols), 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

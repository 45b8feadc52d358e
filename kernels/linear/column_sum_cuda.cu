// Column sums in the order of the CPU: blocks of rows first, one column a thread, then the blocks in ascending order.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/plan/scratch.h"

namespace trainyard::kernels {
namespace {

template <class T, class G> __global__ void partial_kernel(ColumnSumArgs a) {
  TRAINYARD_EACH(i, a.partials.rows * a.x.cols) {
    const auto [b, c] = place_of(i, a.x.cols);
    const auto end = (b + 1) * plan::column_sum_rows < a.x.rows ? (b + 1) * plan::column_sum_rows : a.x.rows;
    G sum = 0;
    for (auto r = b * plan::column_sum_rows; r < end; ++r) sum += widen(a.x.row<T>(r)[c]);
    a.partials.row<G>(b)[c] = sum;
  }
}

template <class G> __global__ void total_kernel(ColumnSumArgs a) {
  TRAINYARD_EACH(c, a.x.cols) {
    G sum = a.partials.row<G>(0)[c];
    for (std::int64_t b = 1; b < a.partials.rows; ++b) sum += a.partials.row<G>(b)[c];
    static_cast<G*>(a.sums.data)[c] = sum;
  }
}

}  // namespace

const char* gpu::column_sum(const ColumnSumArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    constexpr auto partial = partial_kernel<T, G>;
    TRAINYARD_LAUNCH(partial, false, blocks_for(a.partials.rows * a.x.cols), 256, stream, a);
    TRAINYARD_LAUNCH(total_kernel<G>, false, blocks_for(a.x.cols), 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

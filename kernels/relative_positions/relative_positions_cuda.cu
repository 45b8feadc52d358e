// Relative positions on a GPU: a block has a bucket and a head. In a sum one thread adds what the others have fetched.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "kernels/relative_positions/bucket_distances.h"

namespace trainyard::kernels {
namespace {

// Grid: buckets, heads.
template <class T> __global__ void relative_positions_expand_kernel(ExpandPositionsArgs a) {
  const std::int64_t h = blockIdx.y;
  const auto columns = columns_of(a, blockIdx.x);
  const compute_t<T> value = widen(a.table.row<T>(blockIdx.x)[h]);
  for (auto c = columns.first + threadIdx.x; c < columns.end; c += row_threads) a.bias.row<compute_t<T>>(h)[c] = value;
}

template <class G> __global__ void relative_positions_fold_kernel(FoldPositionsArgs a) {
  __shared__ G fetched[row_threads];
  const std::int64_t h = blockIdx.y;
  const int thread = static_cast<int>(threadIdx.x);
  const auto columns = columns_of(a, blockIdx.x);
  const G* row = a.d_bias.row<G>(h);
  G sum = 0;
  for (auto c = columns.first; c < columns.end; c += row_threads) {
    if (c + thread < columns.end) fetched[thread] = row[c + thread];
    __syncthreads();
    const auto count = columns.end - c < row_threads ? columns.end - c : row_threads;
    if (thread == 0)
      for (int k = 0; k < count; ++k) sum += fetched[k];
    __syncthreads();
  }
  G* to = a.d_table.row<G>(blockIdx.x) + h;
  if (thread == 0) *to = a.add ? *to + sum : sum;
}

dim3 grid_of_buckets(const Mat& table) {
  return dim3(static_cast<unsigned>(table.rows), static_cast<unsigned>(table.cols));
}

}  // namespace

const char* gpu::relative_positions_expand(const ExpandPositionsArgs& a, void* stream) {
  const dim3 grid(static_cast<unsigned>(a.table.rows), static_cast<unsigned>(a.table.cols));
  with_type(a.table.type, [&]<class T>(T*) {
    TRAINYARD_LAUNCH(relative_positions_expand_kernel<T>, false, grid, row_threads, stream, a);
  });
  return launch_failure();
}

const char* gpu::relative_positions_fold(const FoldPositionsArgs& a, void* stream) {
  const dim3 grid = grid_of_buckets(a.d_table);
  if (a.d_bias.type == Type::f64)
    TRAINYARD_LAUNCH(relative_positions_fold_kernel<double>, true, grid, row_threads, stream, a);
  else TRAINYARD_LAUNCH(relative_positions_fold_kernel<float>, true, grid, row_threads, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels

// Lookup by rows; the gradient by distinct indices: the block of an index's first occurrence adds all its rows in token order, so nothing is added atomically.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void embedding_forward_kernel(EmbeddingArgs a) {
  TRAINYARD_EACH(i, a.rows.rows * a.rows.cols) {
    const auto r = i / a.rows.cols, c = i % a.rows.cols;
    const T token = a.table.row<T>(a.tokens[r])[c];
    if (a.position_table.empty()) a.rows.row<T>(r)[c] = token;
    else store(a.rows.row<T>(r) + c, widen(token) + widen(a.position_table.row<T>(a.positions[r])[c]));
  }
}

template <class G> __global__ void clear_kernel(Mat table) {
  TRAINYARD_EACH(i, table.rows * table.cols) table.row<G>(i / table.cols)[i % table.cols] = 0;
}

template <class T, class G> __global__ void embedding_backward_kernel(EmbeddingArgs a) {
  __shared__ int match[row_threads];
  const std::int64_t me = blockIdx.x, n = a.rows.rows;
  const int thread = static_cast<int>(threadIdx.x);
  const auto index = a.tokens[me];
  int before = 0;
  for (std::int64_t j = thread; j < me; j += row_threads) before |= a.tokens[j] == index;
  if (__syncthreads_or(before)) return;
  G* row = a.table.row<G>(index);
  for (std::int64_t j0 = me; j0 < n; j0 += row_threads) {
    match[thread] = j0 + thread < n && a.tokens[j0 + thread] == index;
    if (!__syncthreads_or(match[thread])) continue;
    for (std::int64_t c = thread; c < a.rows.cols; c += row_threads) {
      G sum = row[c];
      for (int k = 0; k < row_threads; ++k)
        if (match[k]) sum += widen(a.rows.row<T>(j0 + k)[c]);
      row[c] = sum;
    }
    __syncthreads();
  }
}

}  // namespace

const char* gpu::embedding_forward(const EmbeddingArgs& a, void* stream) {
  with_type(a.rows.type, [&]<class T>(T*) { TRAINYARD_LAUNCH(embedding_forward_kernel<T>, false, blocks_for(a.rows.rows * a.rows.cols), 256, stream, a); });
  return launch_failure();
}

const char* gpu::embedding_backward(const EmbeddingArgs& a, void* stream) {
  with_type(a.rows.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    TRAINYARD_LAUNCH(clear_kernel<G>, false, blocks_for(a.table.rows * a.table.cols), 256, stream, a.table);
    constexpr auto kernel = embedding_backward_kernel<T, G>;
    TRAINYARD_LAUNCH(kernel, true, static_cast<unsigned>(a.rows.rows), row_threads, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

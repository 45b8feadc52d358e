// Lookup row by row. The gradient goes by distinct indices: the block at an index's first occurrence adds all rows of
// that index in token order. So nothing is added atomically.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

// Whether this rank holds the row; `row` is the token less first_row.
__device__ __forceinline__ bool has_row(const ConstMat& table, std::int64_t row) {
  return row >= 0 && row < table.rows;
}

template <class T, int V> __global__ void embedding_forward_kernel(EmbeddingArgs a) {
  const std::int64_t groups = a.rows.cols / V;
  TRAINYARD_EACH(i, a.rows.rows * groups) {
    const auto [r, g] = place_of(i, groups);
    const T* token = a.rows.row<T>(r);
    if (a.tokens != nullptr) {
      const auto at = a.tokens[r] - a.first_row;
      token = has_row(a.table, at) ? a.table.row<T>(at) : nullptr;
    }
    Vec<T, V> row{};
    if (token != nullptr) row = vec_at<V>(token + g * V);
    if (a.scale != 1)
      for (int k = 0; k < V; ++k) store(&row.v[k], widen(row.v[k]) * static_cast<compute_t<T>>(a.scale));
    if (!a.position_table.empty()) {
      const auto position = vec_at<V>(a.position_table.row<T>(a.positions[r]) + g * V);
      for (int k = 0; k < V; ++k) store(&row.v[k], widen(row.v[k]) + widen(position.v[k]));
    }
    put_vec(a.rows.row<T>(r) + g * V, row);
  }
}

template <class G> __global__ void clear_kernel(Mat table) {
  TRAINYARD_EACH(i, table.rows * table.cols) {
    const auto [r, c] = place_of(i, table.cols);
    table.row<G>(r)[c] = 0;
  }
}

// Grid: tokens, groups of row_threads columns. Each block first lists the tokens of a chunk that have its index, so
// that several of their rows are fetched at a time. The rows are added one after the other.
template <class T, class G> __global__ void embedding_backward_kernel(EmbeddingBackwardArgs a) {
  constexpr int ahead = 8;
  __shared__ int match[row_threads], list[row_threads];
  const std::int64_t me = blockIdx.x, n = a.rows.rows;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * row_threads + thread;
  const auto index = a.tokens[me];
  if (!has_row(a.table, index - a.first_row)) return;  // the same for the whole block
  for (std::int64_t j0 = 0; j0 < me; j0 += row_threads)
    if (__syncthreads_or(j0 + thread < me && a.tokens[j0 + thread] == index)) return;
  const G scale = static_cast<G>(a.scale);
  G sum = 0;
  for (std::int64_t j0 = me; j0 < n; j0 += row_threads) {
    const int mine = j0 + thread < n && a.tokens[j0 + thread] == index;
    match[thread] = mine;
    if (!__syncthreads_or(mine)) continue;
    int before = 0, all = 0;
    for (int k = 0; k < row_threads; ++k) {
      before += k < thread ? match[k] : 0;
      all += match[k];
    }
    if (mine) list[before] = thread;
    __syncthreads();
    for (int k = 0; column < a.rows.cols && k < all; k += ahead) {
      G row[ahead];
#pragma unroll
      for (int u = 0; u < ahead; ++u) row[u] = k + u < all ? widen(a.rows.row<T>(j0 + list[k + u])[column]) : G(0);
#pragma unroll
      for (int u = 0; u < ahead; ++u)
        if (k + u < all) sum += row[u] * scale;
    }
    __syncthreads();
  }
  if (column < a.rows.cols) a.table.row<G>(index - a.first_row)[column] = sum;
}

}  // namespace

const char* gpu::embedding_forward(const EmbeddingArgs& a, void* stream) {
  with_type(a.rows.type, [&]<class T>(T*) {
    constexpr auto one = embedding_forward_kernel<T, 1>, many = embedding_forward_kernel<T, vector_of<T>>;
    const bool grouped = in_groups(vector_of<T>, a.rows, a.table, a.position_table);
    const auto kernel = grouped ? many : one;
    TRAINYARD_LAUNCH(kernel, false, blocks_for(a.rows.rows * a.rows.cols / (grouped ? vector_of<T> : 1)), 256, stream,
                     a);
  });
  return launch_failure();
}

const char* gpu::embedding_backward(const EmbeddingBackwardArgs& a, void* stream) {
  with_type(a.rows.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    TRAINYARD_LAUNCH(clear_kernel<G>, false, blocks_for(a.table.rows * a.table.cols), 256, stream, a.table);
    constexpr auto kernel = embedding_backward_kernel<T, G>;
    const dim3 grid(static_cast<unsigned>(a.rows.rows),
                    static_cast<unsigned>((a.rows.cols + row_threads - 1) / row_threads));
    TRAINYARD_LAUNCH(kernel, true, grid, row_threads, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

// Norms: a warp works on one row, 16 bytes a thread at a time; weight gradients are summed by fixed blocks of rows, as
// on the CPU.
#include "kernels/dropout/dropout_device.h"
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/plan/scratch.h"

namespace trainyard::kernels {
namespace {

constexpr int rows_of_block = row_threads / 32;

// Where the row is a sum first: x = residual + dropout(branch). Group g of V channels.
template <class T, int V>
__device__ __forceinline__ Vec<T, V> summed(const NormArgs& a, std::int64_t r, std::int64_t g) {
  using G = compute_t<T>;
  const auto residual = vec_at<V>(a.sum.residual.row<T>(r) + g * V), branch = vec_at<V>(a.sum.x.row<T>(r) + g * V);
  Vec<T, V> out;
  for (int k0 = 0; k0 < V; k0 += 4) {
    const auto first = g * V + k0;
    const auto keep = kept_of<G>(a.sum, r, first / 4);
    for (int k = k0; k < k0 + 4 && k < V; ++k)
      store(&out.v[k], static_cast<G>(widen(residual.v[k])) +
                           keep(static_cast<int>((first + k - k0) % 4), static_cast<G>(widen(branch.v[k]))));
  }
  return out;
}

// The three passes read the row from the nearest cache after the first.
template <class T, int V> __global__ void __launch_bounds__(row_threads) norm_forward_kernel(NormArgs a) {
  using G = compute_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * rows_of_block + threadIdx.x / 32, n = a.x.cols,
                     groups = n / V;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (r >= a.x.rows) return;
  T* x = a.x.row<T>(r);
  const T* weight = static_cast<const T*>(a.weight.data);
  const T* bias = static_cast<const T*>(a.bias.data);
  T* y = a.y.row<T>(r);
  const bool centred = !a.mean.empty(), sums = !a.sum.x.empty();
  G total = 0;
  for (std::int64_t g = lane; g < groups && (centred || sums); g += 32) {
    Vec<T, V> in;
    if (sums) put_vec(x + g * V, in = summed<T, V>(a, r, g));
    else in = vec_at<V>(x + g * V);
    for (int k = 0; k < V; ++k) total += widen(in.v[k]);
  }
  const G mean = centred ? warp_sum(total) / static_cast<G>(n) : G(0);
  G square = 0;
  for (std::int64_t g = lane; g < groups; g += 32) {
    const auto in = vec_at<V>(x + g * V);
    for (int k = 0; k < V; ++k) {
      const G d = static_cast<G>(widen(in.v[k])) - mean;
      square += d * d;
    }
  }
  const G rstd = G(1) / sqrt_of(warp_sum(square) / static_cast<G>(n) + static_cast<G>(a.epsilon));
  if (lane == 0) {
    static_cast<G*>(a.rstd.data)[r] = rstd;
    if (centred) static_cast<G*>(a.mean.data)[r] = mean;
  }
  for (std::int64_t g = lane; g < groups; g += 32) {
    const auto in = vec_at<V>(x + g * V), w = vec_at<V>(weight + g * V);
    const auto b = centred ? vec_at<V>(bias + g * V) : w;
    Vec<T, V> out;
    for (int k = 0; k < V; ++k) {
      const G scaled = (static_cast<G>(widen(in.v[k])) - mean) * rstd * static_cast<G>(widen(w.v[k]));
      store(&out.v[k], centred ? scaled + static_cast<G>(widen(b.v[k])) : scaled);
    }
    put_vec(y + g * V, out);
  }
}

// Sums of dy xh and dy over the rows of one block of rows, one column a thread.
template <class T> __global__ void norm_partial_kernel(NormArgs a) {
  using G = compute_t<T>;
  const std::int64_t blocks = a.partials.rows / 2;
  const bool centred = !a.mean.empty();
  TRAINYARD_EACH(i, blocks * a.x.cols) {
    const auto [b, c] = place_of(i, a.x.cols);
    const auto end = (b + 1) * plan::column_sum_rows < a.x.rows ? (b + 1) * plan::column_sum_rows : a.x.rows;
    G weight = 0, bias = 0;
    for (auto r = b * plan::column_sum_rows; r < end; ++r) {
      const G mean = centred ? static_cast<const G*>(a.mean.data)[r] : G(0);
      const G dy = widen(a.dy.row<T>(r)[c]),
              hat = (static_cast<G>(widen(a.x.row<T>(r)[c])) - mean) * static_cast<const G*>(a.rstd.data)[r];
      weight += dy * hat;
      bias += dy;
    }
    a.partials.row<G>(b)[c] = weight;
    a.partials.row<G>(blocks + b)[c] = centred ? bias : G(0);
  }
}

// The blocks of all ranks, rank by rank.
template <class G> __global__ void norm_fold_kernel(NormFoldArgs a) {
  const std::int64_t blocks = a.partials.rows / (2 * a.ranks);
  TRAINYARD_EACH(c, a.partials.cols) {
    G weight = 0, bias = 0;
    for (std::int64_t rank = 0; rank < a.ranks; ++rank)
      for (std::int64_t b = 0; b < blocks; ++b) {
        const auto at = 2 * rank * blocks + b;
        const G w = a.partials.row<G>(at)[c], v = a.partials.row<G>(at + blocks)[c];
        weight = rank + b == 0 ? w : weight + w;
        bias = rank + b == 0 ? v : bias + v;
      }
    static_cast<G*>(a.dweight.data)[c] = weight;
    if (!a.dbias.empty()) static_cast<G*>(a.dbias.data)[c] = bias;
  }
}

// With xh = (x - mean) rstd and gw = dy weight: dx = rstd (gw - mean(gw) - xh mean(gw xh)); RMS norm drops the mean(gw)
// term. After the partial sums: dx may be dy.
template <class T, int V> __global__ void __launch_bounds__(row_threads) norm_backward_kernel(NormArgs a) {
  using G = compute_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * rows_of_block + threadIdx.x / 32, n = a.x.cols,
                     groups = n / V;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (r >= a.x.rows) return;
  const T* x = a.x.row<T>(r);
  const T* dy = a.dy.row<T>(r);
  T* dx = a.dx.row<T>(r);
  const T* weight = static_cast<const T*>(a.weight.data);
  const bool centred = !a.mean.empty();
  const G rstd = static_cast<const G*>(a.rstd.data)[r], mean = centred ? static_cast<const G*>(a.mean.data)[r] : G(0);
  G plain = 0, along = 0;
  for (std::int64_t g = lane; g < groups; g += 32) {
    const auto in = vec_at<V>(x + g * V), d = vec_at<V>(dy + g * V), w = vec_at<V>(weight + g * V);
    for (int k = 0; k < V; ++k) {
      const G scaled = static_cast<G>(widen(d.v[k])) * static_cast<G>(widen(w.v[k]));
      plain += scaled;
      along += scaled * ((static_cast<G>(widen(in.v[k])) - mean) * rstd);
    }
  }
  plain = warp_sum(plain) / static_cast<G>(n);
  along = warp_sum(along) / static_cast<G>(n);
  if (!centred) plain = 0;
  for (std::int64_t g = lane; g < groups; g += 32) {
    const auto in = vec_at<V>(x + g * V), d = vec_at<V>(dy + g * V), w = vec_at<V>(weight + g * V),
               before = a.add ? vec_at<V>(dx + g * V) : d;
    Vec<T, V> out;
    for (int k = 0; k < V; ++k) {
      const G scaled = static_cast<G>(widen(d.v[k])) * static_cast<G>(widen(w.v[k]));
      const G through = rstd * (scaled - plain - (static_cast<G>(widen(in.v[k])) - mean) * rstd * along);
      store(&out.v[k], a.add ? static_cast<G>(widen(before.v[k])) + through : through);
    }
    put_vec(dx + g * V, out);
  }
}

unsigned blocks_of(const NormArgs& a) { return static_cast<unsigned>((a.x.rows + rows_of_block - 1) / rows_of_block); }

}  // namespace

const char* gpu::norm_forward(const NormArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    constexpr auto one = norm_forward_kernel<T, 1>, many = norm_forward_kernel<T, vector_of<T>>;
    const auto kernel = in_groups(vector_of<T>, a.x, a.weight, a.bias, a.y, a.sum.x, a.sum.residual) ? many : one;
    TRAINYARD_LAUNCH(kernel, true, blocks_of(a), row_threads, stream, a);
  });
  return launch_failure();
}

const char* gpu::norm_backward(const NormArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    TRAINYARD_LAUNCH(norm_partial_kernel<T>, false, blocks_for(a.partials.rows / 2 * a.x.cols), 256, stream, a);
    constexpr auto one = norm_backward_kernel<T, 1>, many = norm_backward_kernel<T, vector_of<T>>;
    const auto kernel = in_groups(vector_of<T>, a.x, a.weight, a.dy, a.dx) ? many : one;
    TRAINYARD_LAUNCH(kernel, true, blocks_of(a), row_threads, stream, a);
  });
  return launch_failure();
}

const char* gpu::norm_fold(const NormFoldArgs& a, void* stream) {
  const auto blocks = blocks_for(a.partials.cols);
  if (a.partials.type == Type::f64) TRAINYARD_LAUNCH(norm_fold_kernel<double>, false, blocks, 256, stream, a);
  else TRAINYARD_LAUNCH(norm_fold_kernel<float>, false, blocks, 256, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels

// Norms: a block works on one row; weight gradients are summed by fixed blocks of rows, as on the CPU.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/base/scratch.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void __launch_bounds__(row_threads) norm_forward_kernel(NormArgs a) {
  using G = compute_t<T>;
  __shared__ G shared[row_threads / 32];
  const std::int64_t r = blockIdx.x, n = a.x.cols;
  const T* x = a.x.row<T>(r);
  const T* weight = static_cast<const T*>(a.weight.data);
  T* y = a.y.row<T>(r);
  const bool centred = !a.mean.empty();
  G mean = 0;
  if (centred) {
    G sum = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += row_threads) sum += widen(x[i]);
    mean = block_sum(sum, shared) / static_cast<G>(n);
  }
  G square = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += row_threads) {
    const G d = static_cast<G>(widen(x[i])) - mean;
    square += d * d;
  }
  const G rstd = G(1) / sqrt_of(block_sum(square, shared) / static_cast<G>(n) + static_cast<G>(a.epsilon));
  if (threadIdx.x == 0) {
    static_cast<G*>(a.rstd.data)[r] = rstd;
    if (centred) static_cast<G*>(a.mean.data)[r] = mean;
  }
  const T* bias = static_cast<const T*>(a.bias.data);
  for (std::int64_t i = threadIdx.x; i < n; i += row_threads) {
    const G scaled = (static_cast<G>(widen(x[i])) - mean) * rstd * static_cast<G>(widen(weight[i]));
    store(&y[i], centred ? scaled + static_cast<G>(widen(bias[i])) : scaled);
  }
}

// Sums of dy xh and dy over the rows of one block of rows, one column a thread.
template <class T> __global__ void norm_partial_kernel(NormArgs a) {
  using G = compute_t<T>;
  const std::int64_t blocks = a.partials.rows / 2;
  const bool centred = !a.mean.empty();
  TRAINYARD_EACH(i, blocks * a.x.cols) {
    const auto b = i / a.x.cols, c = i % a.x.cols;
    const auto end = (b + 1) * base::column_sum_rows < a.x.rows ? (b + 1) * base::column_sum_rows : a.x.rows;
    G weight = 0, bias = 0;
    for (auto r = b * base::column_sum_rows; r < end; ++r) {
      const G mean = centred ? static_cast<const G*>(a.mean.data)[r] : G(0);
      const G dy = widen(a.dy.row<T>(r)[c]), hat = (static_cast<G>(widen(a.x.row<T>(r)[c])) - mean) * static_cast<const G*>(a.rstd.data)[r];
      weight += dy * hat;
      bias += dy;
    }
    a.partials.row<G>(b)[c] = weight;
    a.partials.row<G>(blocks + b)[c] = bias;
  }
}

template <class G> __global__ void norm_total_kernel(NormArgs a) {
  const std::int64_t blocks = a.partials.rows / 2;
  TRAINYARD_EACH(c, a.x.cols) {
    G weight = a.partials.row<G>(0)[c], bias = a.partials.row<G>(blocks)[c];
    for (std::int64_t b = 1; b < blocks; ++b) weight += a.partials.row<G>(b)[c], bias += a.partials.row<G>(blocks + b)[c];
    static_cast<G*>(a.dweight.data)[c] = weight;
    if (!a.dbias.empty()) static_cast<G*>(a.dbias.data)[c] = bias;
  }
}

// With xh = (x - mean) rstd and gw = dy weight: dx = rstd (gw - mean(gw) - xh mean(gw xh)); RMS norm drops the mean(gw) term. After the partial sums: dx may be dy.
template <class T> __global__ void __launch_bounds__(row_threads) norm_backward_kernel(NormArgs a) {
  using G = compute_t<T>;
  __shared__ G shared[row_threads / 32];
  const std::int64_t r = blockIdx.x, n = a.x.cols;
  const T* x = a.x.row<T>(r);
  const T* dy = a.dy.row<T>(r);
  T* dx = a.dx.row<T>(r);
  const T* weight = static_cast<const T*>(a.weight.data);
  const bool centred = !a.mean.empty();
  const G rstd = static_cast<const G*>(a.rstd.data)[r], mean = centred ? static_cast<const G*>(a.mean.data)[r] : G(0);
  G plain = 0, along = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += row_threads) {
    const G scaled = static_cast<G>(widen(dy[i])) * static_cast<G>(widen(weight[i]));
    plain += scaled;
    along += scaled * ((static_cast<G>(widen(x[i])) - mean) * rstd);
  }
  plain = block_sum(plain, shared) / static_cast<G>(n);
  along = block_sum(along, shared) / static_cast<G>(n);
  if (!centred) plain = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += row_threads) {
    const G scaled = static_cast<G>(widen(dy[i])) * static_cast<G>(widen(weight[i]));
    const G through = rstd * (scaled - plain - (static_cast<G>(widen(x[i])) - mean) * rstd * along);
    store(&dx[i], a.add ? static_cast<G>(widen(dx[i])) + through : through);
  }
}

}  // namespace

const char* gpu::norm_forward(const NormArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) { TRAINYARD_LAUNCH(norm_forward_kernel<T>, true, static_cast<unsigned>(a.x.rows), row_threads, stream, a); });
  return launch_failure();
}

const char* gpu::norm_backward(const NormArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    using G = compute_t<T>;
    TRAINYARD_LAUNCH(norm_partial_kernel<T>, false, blocks_for(a.partials.rows / 2 * a.x.cols), 256, stream, a);
    TRAINYARD_LAUNCH(norm_total_kernel<G>, false, blocks_for(a.x.cols), 256, stream, a);
    TRAINYARD_LAUNCH(norm_backward_kernel<T>, true, static_cast<unsigned>(a.x.rows), row_threads, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

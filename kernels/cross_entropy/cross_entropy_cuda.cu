// Cross entropy, one token a block: maximum and sum of exponentials in one pass, the gradient in another.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

// A block works on one row and reads it twice: for the maximum and the sum of exponentials below it, which each thread
// keeps in step, and for the gradient.
template <class T, int V> __global__ void __launch_bounds__(row_threads) cross_entropy_kernel(CrossEntropyArgs a) {
  using G = compute_t<T>;
  __shared__ G shared[row_threads / 32];
  const std::int64_t r = blockIdx.x, n = a.vocabulary;
  const G* logits = a.logits.row<G>(r);
  T* out = a.dlogits.empty() ? nullptr : a.dlogits.row<T>(r);
  const std::int64_t groups = a.logits.cols / V;
  if (a.weights[r] == 0) {  // the same for the whole block
    if (threadIdx.x == 0) a.losses[r] = 0;
    Vec<T, V> zero;
    for (int k = 0; k < V; ++k) store(&zero.v[k], G(0));
    for (std::int64_t g = threadIdx.x; out != nullptr && g < groups; g += row_threads) put_vec(out + g * V, zero);
    return;
  }
  G top = logits[0], sum = 0;  // of this thread; every thread may look at the first
  for (std::int64_t g = threadIdx.x; g * V < n; g += row_threads) {
    const auto in = vec_at<V>(logits + g * V);
    for (int k = 0; k < V; ++k) {
      if (g * V + k >= n) break;
      const G x = in.v[k];
      if (x > top) {
        sum = sum * exp_of(top - x) + G(1);
        top = x;
      } else {
        sum += exp_of(x - top);
      }
    }
  }
  const G most = block_max(top, shared);
  sum = block_sum(sum * exp_of(top - most), shared);
  const std::int64_t target = a.targets[r];
  const G logit = logits[target];
  if (threadIdx.x == 0)
    a.losses[r] = log(static_cast<double>(sum)) + (static_cast<double>(most) - static_cast<double>(logit));
  if (out == nullptr) return;
  __syncthreads();  // dlogits may lie over logits: the target's logit is read
  const G scale = G(1) / sum;
  for (std::int64_t g = threadIdx.x; g < groups; g += row_threads) {
    const auto in = vec_at<V>(logits + g * V);
    Vec<T, V> gradient;
    for (int k = 0; k < V; ++k) {
      const auto c = g * V + k;
      const G p = c < n ? exp_of(in.v[k] - most) * scale : G(0);
      store(&gradient.v[k], c == target ? p - G(1) : p);
    }
    put_vec(out + g * V, gradient);
  }
}

__global__ void __launch_bounds__(row_threads) sum_losses_kernel(SumLossesArgs a) {
  __shared__ double parts[row_threads];
  const std::int64_t run = (a.n + row_threads - 1) / row_threads, first = run * threadIdx.x,
                     end = first + run < a.n ? first + run : a.n;
  double sum = 0;
  for (auto i = first; i < end; ++i) sum += a.losses[i];
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int t = 1; t < row_threads; ++t) sum += parts[t];
  *a.out = sum;
}

}  // namespace

const char* gpu::sum_losses(const SumLossesArgs& a, void* stream) {
  TRAINYARD_LAUNCH(sum_losses_kernel, true, 1, row_threads, stream, a);
  return launch_failure();
}

const char* gpu::cross_entropy(const CrossEntropyArgs& a, void* stream) {
  with_type(a.dlogits.empty() ? a.logits.type : a.dlogits.type, [&]<class T>(T*) {
    constexpr auto one = cross_entropy_kernel<T, 1>, four = cross_entropy_kernel<T, 4>;
    const auto kernel = in_groups(4, a.logits, a.dlogits) ? four : one;
    TRAINYARD_LAUNCH(kernel, true, static_cast<unsigned>(a.logits.rows), row_threads, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

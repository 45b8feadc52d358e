// One token a block: maximum, exponentials and their sum, then the gradient.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void __launch_bounds__(row_threads) cross_entropy_kernel(CrossEntropyArgs a) {
  using G = compute_t<T>;
  __shared__ G shared[row_threads / 32];
  const std::int64_t r = blockIdx.x, n = a.vocabulary;
  const G* logits = a.logits.row<G>(r);
  T* out = a.dlogits.empty() ? nullptr : a.dlogits.row<T>(r);
  const auto columns = a.dlogits.cols;
  if (a.weights[r] == 0) {   // the same for the whole block
    if (threadIdx.x == 0) a.losses[r] = 0;
    for (std::int64_t c = threadIdx.x; out != nullptr && c < columns; c += row_threads) store(&out[c], G(0));
    return;
  }
  G top = logits[0];
  for (std::int64_t c = threadIdx.x; c < n; c += row_threads) top = logits[c] > top ? logits[c] : top;
  top = block_max(top, shared);
  G sum = 0;
  for (std::int64_t c = threadIdx.x; c < n; c += row_threads) sum += exp_of(logits[c] - top);
  sum = block_sum(sum, shared);
  const std::int64_t target = a.targets[r];
  const G logit = logits[target];
  if (threadIdx.x == 0) a.losses[r] = log(static_cast<double>(sum)) + (static_cast<double>(top) - static_cast<double>(logit));
  if (out == nullptr) return;
  __syncthreads();   // dlogits may lie over logits: the target's logit is read
  const G scale = G(1) / sum, hit = exp_of(logit - top) * scale - G(1);
  for (std::int64_t c = threadIdx.x; c < columns; c += row_threads) store(&out[c], c >= n ? G(0) : c == target ? hit : exp_of(logits[c] - top) * scale);
}

__global__ void __launch_bounds__(row_threads) sum_losses_kernel(SumLossesArgs a) {
  __shared__ double parts[row_threads];
  const std::int64_t run = (a.n + row_threads - 1) / row_threads, first = run * threadIdx.x, end = first + run < a.n ? first + run : a.n;
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
  with_type(a.dlogits.empty() ? a.logits.type : a.dlogits.type,
            [&]<class T>(T*) { TRAINYARD_LAUNCH(cross_entropy_kernel<T>, true, static_cast<unsigned>(a.logits.rows), row_threads, stream, a); });
  return launch_failure();
}

}  // namespace trainyard::kernels

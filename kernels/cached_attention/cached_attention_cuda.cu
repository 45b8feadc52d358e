// One query row, with one block for each head.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void __launch_bounds__(row_threads) cached_attention_kernel(CachedAttentionArgs a) {
  using F = compute_t<T>;
  __shared__ F shared[row_threads / 32];
  const std::int64_t h = blockIdx.x, t = a.k.rows, d = a.head_dim, column = h / (a.heads / a.kv_heads) * d;
  const T* q = a.q.row<T>(0) + h * d;
  F* scores = a.scores.row<F>(h);
  const F* bias = a.bias.empty() ? nullptr : a.bias.row<F>(h);
  F top = -1e30f;
  for (std::int64_t j = threadIdx.x; j < t; j += row_threads) {
    const T* k = a.k.row<T>(j) + column;
    F s = 0;
    for (std::int64_t c = 0; c < d; ++c) s += static_cast<F>(widen(q[c])) * static_cast<F>(widen(k[c]));
    s *= static_cast<F>(a.scale);
    if (a.softcap != 0) s = static_cast<F>(a.softcap) * tanh_of(s / static_cast<F>(a.softcap));
    if (bias != nullptr) s += bias[j];
    scores[j] = s;
    top = s > top ? s : top;
  }
  top = block_max(top, shared);
  F sum = 0;
  for (std::int64_t j = threadIdx.x; j < t; j += row_threads) {
    scores[j] = exp_of(scores[j] - top);
    sum += scores[j];
  }
  sum = block_sum(sum, shared);  // also a barrier: all scores are written
  for (std::int64_t c = threadIdx.x; c < d; c += row_threads) {
    F mixed = 0;
    for (std::int64_t j = 0; j < t; ++j) mixed += scores[j] * static_cast<F>(widen(a.v.row<T>(j)[column + c]));
    store(a.out.row<T>(0) + h * d + c, mixed / sum);
  }
}

}  // namespace

const char* gpu::cached_attention(const CachedAttentionArgs& a, void* stream) {
  with_type(a.q.type, [&]<class T>(T*) {
    TRAINYARD_LAUNCH(cached_attention_kernel<T>, true, static_cast<unsigned>(a.heads), row_threads, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

// The mix, one block for each row.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void mix_kernel(ExpertMixArgs g) {
  using F = compute_t<T>;
  __shared__ F shared[8];
  const std::int64_t r = blockIdx.x;
  const F* logits = g.logits.row<F>(r);
  const F c0 = F(1) / (F(1) + exp_of(logits[1] - logits[0])), c1 = F(1) / (F(1) + exp_of(logits[0] - logits[1]));
  const T* a = g.a.row<T>(r);
  const T* b = g.b.row<T>(r);
  if (g.dout.empty()) {
    T* out = g.out.row<T>(r);
    for (std::int64_t c = threadIdx.x; c < g.a.cols; c += row_threads)
      store(&out[c],
            rounded_product(c0, static_cast<F>(widen(a[c]))) + rounded_product(c1, static_cast<F>(widen(b[c]))));
    return;
  }
  const T* dout = g.dout.row<T>(r);
  F of_a = 0, of_b = 0;
  for (std::int64_t c = threadIdx.x; c < g.a.cols; c += row_threads) {
    const F d = widen(dout[c]);
    of_a += d * static_cast<F>(widen(a[c]));
    of_b += d * static_cast<F>(widen(b[c]));
  }
  of_a = block_sum(of_a, shared);
  of_b = block_sum(of_b, shared);
  if (threadIdx.x == 0) {
    F* d_logits = g.d_logits.row<F>(r);
    d_logits[0] = c0 * c1 * (of_a - of_b);
    d_logits[1] = -d_logits[0];
  }
  T* da = g.da.row<T>(r);
  T* db = g.db.row<T>(r);
  for (std::int64_t c = threadIdx.x; c < g.a.cols; c += row_threads) {
    const F d = widen(dout[c]);
    store(&da[c], c0 * d);
    store(&db[c], c1 * d);
  }
}

}  // namespace

const char* gpu::expert_mix(const ExpertMixArgs& g, void* stream) {
  with_type(g.a.type, [&]<class T>(T*) {
    TRAINYARD_LAUNCH(mix_kernel<T>, true, static_cast<unsigned>(g.a.rows), row_threads, stream, g);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

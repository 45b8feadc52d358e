// The mix, row by row.
#include "kernels/expert_mix/expert_mix_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class T> void mix_row(const ExpertMixArgs& g, int64_t r) {
  using F = compute_t<T>;
  const int64_t n = g.a.cols;
  const F* logits = g.logits.row<F>(r);
  const F c0 = F(1) / (F(1) + exp_of(logits[1] - logits[0])), c1 = F(1) / (F(1) + exp_of(logits[0] - logits[1]));
  const T* a = g.a.row<T>(r);
  const T* b = g.b.row<T>(r);
  if (g.dout.empty()) {
    T* out = g.out.row<T>(r);
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) store(&out[c], c0 * static_cast<F>(widen(a[c])) + c1 * static_cast<F>(widen(b[c])));
    return;
  }
  const T* dout = g.dout.row<T>(r);
  const F of_a =
              lane_sum<F>(n, [&](int64_t c) { return static_cast<F>(widen(dout[c])) * static_cast<F>(widen(a[c])); }),
          of_b =
              lane_sum<F>(n, [&](int64_t c) { return static_cast<F>(widen(dout[c])) * static_cast<F>(widen(b[c])); });
  F* d_logits = g.d_logits.row<F>(r);
  d_logits[0] = c0 * c1 * (of_a - of_b);
  d_logits[1] = -d_logits[0];
  T* da = g.da.row<T>(r);
  T* db = g.db.row<T>(r);
  for (int64_t c = 0; c < n; ++c) {
    const F d = widen(dout[c]);
    store(&da[c], c0 * d);
    store(&db[c], c1 * d);
  }
}

}  // namespace

void expert_mix_cpu(const ExpertMixArgs& g) {
  with_type(g.a.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(g.threads) schedule(static)
    for (int64_t r = 0; r < g.a.rows; ++r) mix_row<T>(g, r);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

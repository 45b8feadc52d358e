// The mix, row by row.
#include "kernels/expert_mix/expert_mix_args.h"

#include "kernels/strips_cpu.h"

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
    return map_row(
        n, g.out.row<T>(r), [&](F x, F y) { return c0 * x + c1 * y; }, a, b);
  }
  const T* dout = g.dout.row<T>(r);
  LaneSum<F> sum_a, sum_b;
  over_strips<T>(n, [&](int64_t from, int64_t m) {
    const StripIn<T> d(dout + from, m), x(a + from, m), y(b + from, m);
    sum_a.add(m, [&](int64_t c) { return d[c] * x[c]; });
    sum_b.add(m, [&](int64_t c) { return d[c] * y[c]; });
  });
  const F of_a = sum_a.total(), of_b = sum_b.total();
  F* d_logits = g.d_logits.row<F>(r);
  d_logits[0] = c0 * c1 * (of_a - of_b);
  d_logits[1] = -d_logits[0];
  over_strips<T>(n, [&](int64_t from, int64_t m) {
    const StripIn<T> d(dout + from, m);
    StripOut<T> da(g.da.row<T>(r) + from, m), db(g.db.row<T>(r) + from, m);
    for (int64_t c = 0; c < m; ++c) da.put(c, c0 * d[c]), db.put(c, c1 * d[c]);
    da.finish(), db.finish();
  });
}

}  // namespace

void expert_mix_cpu(const ExpertMixArgs& g) {
  with_type(g.a.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(g.threads) schedule(static)
    for (int64_t r = 0; r < g.a.rows; ++r) mix_row<T>(g, r);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

// One query row, head by head: scores, softmax, weighted sum.
#include "kernels/cached_attention/cached_attention_args.h"

#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class T> void one_head(const CachedAttentionArgs& a, int64_t h) {
  using F = compute_t<T>;
  const int64_t t = a.k.rows, d = a.head_dim, column = h / (a.heads / a.kv_heads) * d;
  const T* q = a.q.row<T>(0) + h * d;
  F* scores = a.scores.row<F>(h);
  const F* bias = a.bias.empty() ? nullptr : a.bias.row<F>(h);
  F top = -static_cast<F>(__builtin_inf());
  for (int64_t j = 0; j < t; ++j) {
    const T* k = a.k.row<T>(j) + column;
    LaneSum<F> product;
    over_strips<T>(d, [&](int64_t c0, int64_t m) {
      const StripIn<T> u(q + c0, m), v(k + c0, m);
      product.add(m, [&](int64_t c) { return u[c] * v[c]; });
    });
    scores[j] = static_cast<F>(a.scale) * product.total();
    if (a.softcap != 0)
      scores[j] = static_cast<F>(a.softcap * __builtin_tanh(static_cast<double>(scores[j]) / a.softcap));
    if (bias != nullptr) scores[j] += bias[j];
    top = scores[j] > top ? scores[j] : top;
  }
  for (int64_t j = 0; j < t; ++j) scores[j] = exp_of(scores[j] - top);
  const F sum = lane_sum<F>(t, [&](int64_t j) { return scores[j]; });
  T* out = a.out.row<T>(0) + h * d;
  for (int64_t c0 = 0; c0 < d; c0 += 16) {
    const int64_t n = d - c0 < 16 ? d - c0 : 16;
    F mixed[16] = {};
    for (int64_t j = 0; j < t; ++j) {
      const StripIn<T> v(a.v.row<T>(j) + column + c0, n);
      for (int64_t c = 0; c < n; ++c) mixed[c] += scores[j] * v[c];
    }
    StripOut<T> to(out + c0, n);
    for (int64_t c = 0; c < n; ++c) to.put(c, mixed[c] / sum);
    to.finish();
  }
}

}  // namespace

void cached_attention_cpu(const CachedAttentionArgs& a) {
  with_type(a.q.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t h = 0; h < a.heads; ++h) one_head<T>(a, h);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

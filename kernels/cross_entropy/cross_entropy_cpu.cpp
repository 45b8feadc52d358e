// One token is one unit of work: maximum, exponentials and their sum, then the gradient.
#include "kernels/cross_entropy/cross_entropy_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class G> G largest(const G* x, int64_t n) {
  G lane[16];
  for (int l = 0; l < 16; ++l) lane[l] = x[0];
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
  for (; i < n; ++i) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  G best = lane[0];
  for (int l = 1; l < 16; ++l) best = lane[l] > best ? lane[l] : best;
  return best;
}

template <class T, class G> void token(const CrossEntropyArgs& a, int64_t r) {
  const G* logits = a.logits.row<G>(r);
  T* out = a.dlogits.empty() ? nullptr : a.dlogits.row<T>(r);
  const int64_t n = a.vocabulary;
  if (a.weights[r] == 0) {
    a.losses[r] = 0;
    if (out)
      for (int64_t c = 0; c < a.dlogits.cols; ++c) store(&out[c], static_cast<compute_t<T>>(0));
    return;
  }
  const G top = largest(logits, n);
  const G sum = lane_sum<G>(n, [&](int64_t i) { return exp_of(logits[i] - top); });
  const int64_t target = a.targets[r];
  a.losses[r] =
      __builtin_log(static_cast<double>(sum)) + (static_cast<double>(top) - static_cast<double>(logits[target]));
  if (!out) return;
  const G scale = G(1) / sum, hit = exp_of(logits[target] - top) * scale - G(1);
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) store(&out[c], static_cast<compute_t<T>>(exp_of(logits[c] - top) * scale));
  for (int64_t c = n; c < a.dlogits.cols; ++c) store(&out[c], static_cast<compute_t<T>>(0));
  store(&out[target], static_cast<compute_t<T>>(hit));
}

}  // namespace

void cross_entropy_cpu(const CrossEntropyArgs& a) {
  with_type(a.dlogits.empty() ? a.logits.type : a.dlogits.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t r = 0; r < a.logits.rows; ++r) token<T, compute_t<T>>(a, r);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

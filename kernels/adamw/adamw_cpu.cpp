// The sequence of adamw.h, element by element. Square root and division are correctly rounded on every path.
#include "kernels/adamw/adamw_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <bool decay_in_gradient> void adamw_range(const AdamWArgs& a, int64_t from, int64_t to) {
  float* __restrict p = static_cast<float*>(a.parameter.data);
  const float* __restrict gradient = static_cast<const float*>(a.gradient.data);
  float* __restrict m = static_cast<float*>(a.m.data);
  float* __restrict v = static_cast<float*>(a.v.data);
#pragma omp simd
  for (int64_t i = from; i < to; ++i) {
    const float g = decay_in_gradient ? gradient[i] * a.scale + a.weight_decay * p[i] : gradient[i] * a.scale;
    const float mi = a.beta1 * m[i] + a.rest1 * g;
    const float vi = a.beta2 * v[i] + a.rest2 * (g * g);
    const float d = sqrt_of(vi * a.correction2) + a.epsilon;
    const float u = decay_in_gradient ? (mi * a.correction1) / d : (mi * a.correction1) / d + a.weight_decay * p[i];
    m[i] = mi;
    v[i] = vi;
    p[i] = p[i] - a.learning_rate * u;
  }
  if (a.working.empty()) return;
  with_narrow_type(a.working.type,
                   [&]<class W>(W*) { narrow_row(static_cast<W*>(a.working.data) + from, p + from, to - from); });
}

}  // namespace

void adamw_cpu(const AdamWArgs& a) {
  constexpr int64_t block = 8192;
  const int64_t n = a.parameter.rows * a.parameter.cols, blocks = (n + block - 1) / block;
#pragma omp parallel for num_threads(a.threads) schedule(static) if (blocks > 2)
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t from = b * block, to = from + block < n ? from + block : n;
    if (a.decay_in_gradient) adamw_range<true>(a, from, to);
    else adamw_range<false>(a, from, to);
  }
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

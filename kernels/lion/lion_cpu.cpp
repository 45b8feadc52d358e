// The sequence of lion.h, element by element.
#include "kernels/lion/lion_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

void lion_range(const LionArgs& a, int64_t from, int64_t to) {
  float* __restrict p = static_cast<float*>(a.parameter.data);
  const float* __restrict gradient = static_cast<const float*>(a.gradient.data);
  float* __restrict m = static_cast<float*>(a.m.data);
#pragma omp simd
  for (int64_t i = from; i < to; ++i) {
    const float g = gradient[i] * a.scale;
    const float c = a.beta1 * m[i] + a.rest1 * g;
    const float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : c;
    const float u = sign + a.weight_decay * p[i];
    m[i] = a.beta2 * m[i] + a.rest2 * g;
    p[i] = p[i] - a.learning_rate * u;
  }
  if (a.working.empty()) return;
  with_narrow_type(a.working.type,
                   [&]<class W>(W*) { narrow_row(static_cast<W*>(a.working.data) + from, p + from, to - from); });
}

}  // namespace

void lion_cpu(const LionArgs& a) {
  constexpr int64_t block = 8192;
  const int64_t n = a.parameter.rows * a.parameter.cols, blocks = (n + block - 1) / block;
#pragma omp parallel for num_threads(a.threads) schedule(static) if (blocks > 2)
  for (int64_t b = 0; b < blocks; ++b) lion_range(a, b * block, (b + 1) * block < n ? (b + 1) * block : n);
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

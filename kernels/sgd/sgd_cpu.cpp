// The sequence of sgd.h, element by element.
#include "kernels/sgd/sgd_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <bool nesterov> void sgd_range(const SgdArgs& a, int64_t from, int64_t to) {
  float* __restrict p = static_cast<float*>(a.parameter.data);
  const float* __restrict gradient = static_cast<const float*>(a.gradient.data);
  float* __restrict buffer = static_cast<float*>(a.buffer.data);
#pragma omp simd
  for (int64_t i = from; i < to; ++i) {
    const float g = gradient[i] * a.scale + a.weight_decay * p[i];
    const float b = a.momentum * buffer[i] + g;
    const float u = nesterov ? g + a.momentum * b : b;
    buffer[i] = b;
    p[i] = p[i] - a.learning_rate * u;
  }
  if (a.working.empty()) return;
  with_narrow_type(a.working.type,
                   [&]<class W>(W*) { narrow_row(static_cast<W*>(a.working.data) + from, p + from, to - from); });
}

}  // namespace

void sgd_cpu(const SgdArgs& a) {
  constexpr int64_t block = 8192;
  const int64_t n = a.parameter.rows * a.parameter.cols, blocks = (n + block - 1) / block;
#pragma omp parallel for num_threads(a.threads) schedule(static) if (blocks > 2)
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t from = b * block, to = from + block < n ? from + block : n;
    if (a.nesterov) sgd_range<true>(a, from, to);
    else sgd_range<false>(a, from, to);
  }
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

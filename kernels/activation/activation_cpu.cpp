// Activations, row by row.
#include "kernels/activation/activation_args.h"

#include "kernels/cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class T> void one_row(const ActivationArgs& a, int64_t r) {
  using F = compute_t<T>;
  const int64_t n = a.x.cols;
  const T* x = a.x.row<T>(r);
  const T* up = a.up.empty() ? nullptr : a.up.row<T>(r);
  const T* dy = a.dy.empty() ? nullptr : a.dy.row<T>(r);
  T* y = a.y.row<T>(r);
  T* dup = a.dup.empty() ? nullptr : a.dup.row<T>(r);
  switch (a.kernel) {
    case ActivationKernel::gelu_forward:
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) store(&y[c], gelu_of(static_cast<F>(widen(x[c]))));
      break;
    case ActivationKernel::gelu_backward:
#pragma omp simd
      for (int64_t c = 0; c < n; ++c)
        store(&y[c], static_cast<F>(widen(dy[c])) * gelu_slope(static_cast<F>(widen(x[c]))));
      break;
    case ActivationKernel::gelu_erf_forward:
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) store(&y[c], gelu_erf_of(static_cast<F>(widen(x[c]))));
      break;
    case ActivationKernel::gelu_erf_backward:
#pragma omp simd
      for (int64_t c = 0; c < n; ++c)
        store(&y[c], static_cast<F>(widen(dy[c])) * gelu_erf_slope(static_cast<F>(widen(x[c]))));
      break;
    case ActivationKernel::swiglu_forward:
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) {
        const F g = widen(x[c]);
        store(&y[c], g / (F(1) + exp_of(-g)) * widen(up[c]));
      }
      break;
    case ActivationKernel::swiglu_backward:
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) {
        const F g = widen(x[c]), u = widen(up[c]), d = widen(dy[c]);
        const F s = F(1) / (F(1) + exp_of(-g));
        store(&y[c], d * u * s * (F(1) + g * (F(1) - s)));
        store(&dup[c], d * g * s);
      }
      break;
  }
}

}  // namespace

void activation_cpu(const ActivationArgs& a) {
  with_type(a.x.type, [&]<class T>(T*) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
    for (int64_t r = 0; r < a.x.rows; ++r) one_row<T>(a, r);
  });
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE

// Activations, row by row.
#include "kernels/activation/activation_args.h"

#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class T> void swiglu_backward_row(const ActivationArgs& a, int64_t r) {
  using F = compute_t<T>;
  over_strips<T>(a.x.cols, [&](int64_t c0, int64_t m) {
    const StripIn<T> x(a.x.row<T>(r) + c0, m), up(a.up.row<T>(r) + c0, m), dy(a.dy.row<T>(r) + c0, m);
    StripOut<T> y(a.y.row<T>(r) + c0, m), dup(a.dup.row<T>(r) + c0, m);
#pragma omp simd
    for (int64_t c = 0; c < m; ++c) {
      const F g = x[c], u = up[c], d = dy[c];
      const F s = F(1) / (F(1) + exp_of(-g));
      y.put(c, d * u * s * (F(1) + g * (F(1) - s)));
      dup.put(c, d * g * s);
    }
    y.finish(), dup.finish();
  });
}

template <class T> void one_row(const ActivationArgs& a, int64_t r) {
  using F = compute_t<T>;
  const int64_t n = a.x.cols;
  const T* x = a.x.row<T>(r);
  const T* up = a.up.empty() ? nullptr : a.up.row<T>(r);
  const T* dy = a.dy.empty() ? nullptr : a.dy.row<T>(r);
  T* y = a.y.row<T>(r);
  switch (a.kernel) {
    case ActivationKernel::gelu_forward:
      return map_row(
          n, y, [](F v) { return gelu_of(v); }, x);
    case ActivationKernel::gelu_backward:
      return map_row(
          n, y, [](F d, F v) { return d * gelu_slope(v); }, dy, x);
    case ActivationKernel::gelu_erf_forward:
      return map_row(
          n, y, [](F v) { return gelu_erf_of(v); }, x);
    case ActivationKernel::gelu_erf_backward:
      return map_row(
          n, y, [](F d, F v) { return d * gelu_erf_slope(v); }, dy, x);
    case ActivationKernel::swiglu_forward:
      return map_row(
          n, y, [](F g, F u) { return g / (F(1) + exp_of(-g)) * u; }, x, up);
    case ActivationKernel::swiglu_backward: return swiglu_backward_row<T>(a, r);
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

// Activations, row by row.
#include "kernels/activation/activation_args.h"

#include "kernels/strips_cpu.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

// NaN stays NaN.
template <class F> F relu_of(F v) { return v < F(0) ? F(0) : v; }

// f(gate, up, dy, &dgate, &dup) for each element of a row.
template <class T, class Function> void gated_backward_row(const ActivationArgs& a, int64_t r, const Function& f) {
  over_strips<T>(a.x.cols, [&](int64_t c0, int64_t m) {
    const StripIn<T> x(a.x.row<T>(r) + c0, m), up(a.up.row<T>(r) + c0, m), dy(a.dy.row<T>(r) + c0, m);
    StripOut<T> y(a.y.row<T>(r) + c0, m), dup(a.dup.row<T>(r) + c0, m);
#pragma omp simd
    for (int64_t c = 0; c < m; ++c) {
      compute_t<T> to_gate, to_up;
      f(x[c], up[c], dy[c], to_gate, to_up);
      y.put(c, to_gate);
      dup.put(c, to_up);
    }
    y.finish(), dup.finish();
  });
}

template <class T> void gated_row(const ActivationArgs& a, int64_t r) {
  using F = compute_t<T>;
  const auto forward = [&](const auto& value) {
    map_row(a.x.cols, a.y.row<T>(r), value, a.x.row<T>(r), a.up.row<T>(r));
  };
  const bool back = !a.dy.empty();
  switch (a.form) {
    case Activation::gelu_tanh:
      if (!back) return forward([](F g, F u) { return gelu_of(g) * u; });
      return gated_backward_row<T>(a, r, [](F g, F u, F d, F& to_gate, F& to_up) {
        to_gate = d * u * gelu_slope(g);
        to_up = d * gelu_of(g);
      });
    case Activation::gelu_erf:
      if (!back) return forward([](F g, F u) { return gelu_erf_of(g) * u; });
      return gated_backward_row<T>(a, r, [](F g, F u, F d, F& to_gate, F& to_up) {
        to_gate = d * u * gelu_erf_slope(g);
        to_up = d * gelu_erf_of(g);
      });
    default:
      if (!back) return forward([](F g, F u) { return g / (F(1) + exp_of(-g)) * u; });
      return gated_backward_row<T>(a, r, [](F g, F u, F d, F& to_gate, F& to_up) {
        const F s = F(1) / (F(1) + exp_of(-g));
        to_gate = d * u * s * (F(1) + g * (F(1) - s));
        to_up = d * g * s;
      });
  }
}

template <class T> void one_row(const ActivationArgs& a, int64_t r) {
  using F = compute_t<T>;
  if (!a.up.empty()) return gated_row<T>(a, r);
  const auto forward = [&](const auto& value) { map_row(a.x.cols, a.y.row<T>(r), value, a.x.row<T>(r)); };
  const auto backward = [&](const auto& gradient) {
    map_row(a.x.cols, a.y.row<T>(r), gradient, a.dy.row<T>(r), a.x.row<T>(r));
  };
  const bool back = !a.dy.empty();
  switch (a.form) {
    case Activation::gelu_tanh:
      if (!back) return forward([](F v) { return gelu_of(v); });
      return backward([](F d, F v) { return d * gelu_slope(v); });
    case Activation::gelu_erf:
      if (!back) return forward([](F v) { return gelu_erf_of(v); });
      return backward([](F d, F v) { return d * gelu_erf_slope(v); });
    case Activation::relu:
      if (!back) return forward([](F v) { return relu_of(v); });
      return backward([](F d, F v) { return v <= F(0) ? F(0) : d; });
    default:
      if (!back) return forward([](F v) { return relu_of(v) * relu_of(v); });
      return backward([](F d, F v) { return d * (F(2) * relu_of(v)); });
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

// Activations, 16 bytes for each thread where the rows allow it.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "kernels/gpu_mma.h"

namespace trainyard::kernels {
namespace {

// 1 / (1 + e^-x) for values stored as T. For narrow ones, two instructions with errors of 2^-22 are enough: the store
// itself has an error of 2^-9 in bf16 and 2^-12 in f16.
template <class T, class F> __device__ __forceinline__ F logistic_of(F x) {
  if constexpr (sizeof(T) == sizeof(b16)) return reciprocal_of(1.0f + exp2_of(-log2_e * x));
  else return F(1) / (F(1) + exp_of(-x));
}

// GELU's tanh form with tanh(u) = 2 logistic(2 u) - 1: for s = logistic(2 u) the value is x s, and the slope is s + 2 x
// s (1 - s) u'.
template <class F> __device__ __forceinline__ F twice_u(F x) {
  return F(2 * 0.7978845608028654) * (x + F(0.044715) * x * x * x);
}
template <class F> __device__ __forceinline__ F twice_u_slope(F x) {
  return F(2 * 0.7978845608028654) * (F(1) + F(3 * 0.044715) * x * x);
}

// NaN stays NaN.
template <class F> __device__ __forceinline__ F relu_of(F x) { return x < F(0) ? F(0) : x; }

// The activation of a value, and its slope there.
template <Activation A, class T, class F> __device__ __forceinline__ F value_of(F in) {
  using enum Activation;
  if constexpr (A == gelu_tanh) return in * logistic_of<T>(twice_u(in));
  else if constexpr (A == gelu_erf) return gelu_erf_of(in);
  else if constexpr (A == relu) return relu_of(in);
  else if constexpr (A == relu_squared) return relu_of(in) * relu_of(in);
  else return in * logistic_of<T>(in);
}
template <Activation A, class T, class F> __device__ __forceinline__ F slope_of(F in) {
  using enum Activation;
  if constexpr (A == gelu_tanh) {
    const F s = logistic_of<T>(twice_u(in));
    return s + in * s * (F(1) - s) * twice_u_slope(in);
  } else if constexpr (A == gelu_erf) {
    return gelu_erf_slope(in);
  } else {
    return F(2) * relu_of(in);  // of relu_squared; relu's gradient is chosen, not multiplied
  }
}

enum class ActivationPass { forward, backward, gated_forward, gated_backward };

// in: the activation's input. up: the second input of gated activations. dy: the output's gradient. *second gets the
// gradient of `up`.
template <Activation A, ActivationPass P, class T, class F>
__device__ __forceinline__ F result_of(F in, F up, F dy, F* second) {
  using enum ActivationPass;
  if constexpr (P == forward) {
    return value_of<A, T>(in);
  } else if constexpr (P == backward) {
    if constexpr (A == Activation::relu) return in <= F(0) ? F(0) : dy;
    else return dy * slope_of<A, T>(in);
  } else if constexpr (P == gated_forward) {
    return value_of<A, T>(in) * up;
  } else if constexpr (A == Activation::silu) {
    const F s = logistic_of<T>(in);
    *second = dy * in * s;
    return dy * up * s * (F(1) + in * (F(1) - s));
  } else {
    *second = dy * value_of<A, T>(in);
    return dy * up * slope_of<A, T>(in);
  }
}

template <Activation A, ActivationPass P, class T, int V> __global__ void activation_kernel(ActivationArgs a) {
  using F = compute_t<T>;
  constexpr bool gated = P == ActivationPass::gated_forward || P == ActivationPass::gated_backward,
                 backward = P == ActivationPass::backward || P == ActivationPass::gated_backward;
  const std::int64_t groups = a.x.cols / V;
  TRAINYARD_EACH(i, a.x.rows * groups) {
    const auto [r, g] = place_of(i, groups);
    const auto c = g * V;
    const auto x = vec_at<V>(a.x.row<T>(r) + c);
    const auto up = gated ? vec_at<V>(a.up.row<T>(r) + c) : x;
    const auto dy = backward ? vec_at<V>(a.dy.row<T>(r) + c) : x;
    Vec<T, V> y, second;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      F other = 0;
      store(&y.v[k], result_of<A, P, T, F>(widen(x.v[k]), widen(up.v[k]), widen(dy.v[k]), &other));
      if (gated && backward) store(&second.v[k], other);
    }
    put_vec(a.y.row<T>(r) + c, y);
    if (gated && backward) put_vec(a.dup.row<T>(r) + c, second);
  }
}

template <Activation A, ActivationPass P> void launch(const ActivationArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    constexpr auto one = activation_kernel<A, P, T, 1>, many = activation_kernel<A, P, T, vector_of<T>>;
    const bool grouped = in_groups(vector_of<T>, a.x, a.up, a.dy, a.y, a.dup);
    const auto kernel = grouped ? many : one;
    TRAINYARD_LAUNCH(kernel, false, blocks_for(a.x.rows * a.x.cols / (grouped ? vector_of<T> : 1)), 256, stream, a);
  });
}
template <Activation A> void launch_alone(const ActivationArgs& a, void* stream) {
  if (a.dy.empty()) launch<A, ActivationPass::forward>(a, stream);
  else launch<A, ActivationPass::backward>(a, stream);
}
template <Activation A> void launch_gated(const ActivationArgs& a, void* stream) {
  if (a.dy.empty()) launch<A, ActivationPass::gated_forward>(a, stream);
  else launch<A, ActivationPass::gated_backward>(a, stream);
}

}  // namespace

const char* gpu::activation(const ActivationArgs& a, void* stream) {
  using enum Activation;
  const bool gated = !a.up.empty();
  switch (a.form) {
    case gelu_tanh: gated ? launch_gated<gelu_tanh>(a, stream) : launch_alone<gelu_tanh>(a, stream); break;
    case gelu_erf: gated ? launch_gated<gelu_erf>(a, stream) : launch_alone<gelu_erf>(a, stream); break;
    case relu: launch_alone<relu>(a, stream); break;
    case relu_squared: launch_alone<relu_squared>(a, stream); break;
    case silu: launch_gated<silu>(a, stream); break;
  }
  return launch_failure();
}

}  // namespace trainyard::kernels

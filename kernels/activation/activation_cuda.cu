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

template <ActivationKernel K> constexpr bool gated =
    K == ActivationKernel::swiglu_forward || K == ActivationKernel::swiglu_backward;
template <ActivationKernel K> constexpr bool backward = K == ActivationKernel::gelu_backward ||
                                                        K == ActivationKernel::gelu_erf_backward ||
                                                        K == ActivationKernel::swiglu_backward;

// in: the activation's input. up: the second input of gated activations. dy: the output's gradient. *second gets the
// gradient of `up`.
template <ActivationKernel K, class T, class F> __device__ __forceinline__ F result_of(F in, F up, F dy, F* second) {
  using enum ActivationKernel;
  if constexpr (K == gelu_forward) {
    return in * logistic_of<T>(twice_u(in));
  } else if constexpr (K == gelu_backward) {
    const F s = logistic_of<T>(twice_u(in));
    return dy * (s + in * s * (F(1) - s) * twice_u_slope(in));
  } else if constexpr (K == gelu_erf_forward) {
    return gelu_erf_of(in);
  } else if constexpr (K == gelu_erf_backward) {
    return dy * gelu_erf_slope(in);
  } else {
    const F s = logistic_of<T>(in);
    if constexpr (K == swiglu_forward) return in * s * up;
    *second = dy * in * s;
    return dy * up * s * (F(1) + in * (F(1) - s));
  }
}

template <ActivationKernel K, class T, int V> __global__ void activation_kernel(ActivationArgs a) {
  using F = compute_t<T>;
  const std::int64_t groups = a.x.cols / V;
  TRAINYARD_EACH(i, a.x.rows * groups) {
    const auto [r, g] = place_of(i, groups);
    const auto c = g * V;
    const auto x = vec_at<V>(a.x.row<T>(r) + c);
    const auto up = gated<K> ? vec_at<V>(a.up.row<T>(r) + c) : x;
    const auto dy = backward<K> ? vec_at<V>(a.dy.row<T>(r) + c) : x;
    Vec<T, V> y, second;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      F other = 0;
      store(&y.v[k], result_of<K, T, F>(widen(x.v[k]), widen(up.v[k]), widen(dy.v[k]), &other));
      if (K == ActivationKernel::swiglu_backward) store(&second.v[k], other);
    }
    put_vec(a.y.row<T>(r) + c, y);
    if (K == ActivationKernel::swiglu_backward) put_vec(a.dup.row<T>(r) + c, second);
  }
}

template <ActivationKernel K> void launch(const ActivationArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    constexpr auto one = activation_kernel<K, T, 1>, many = activation_kernel<K, T, vector_of<T>>;
    const bool grouped = in_groups(vector_of<T>, a.x, a.up, a.dy, a.y, a.dup);
    const auto kernel = grouped ? many : one;
    TRAINYARD_LAUNCH(kernel, false, blocks_for(a.x.rows * a.x.cols / (grouped ? vector_of<T> : 1)), 256, stream, a);
  });
}

}  // namespace

const char* gpu::activation(const ActivationArgs& a, void* stream) {
  using enum ActivationKernel;
  switch (a.kernel) {
    case gelu_forward: launch<gelu_forward>(a, stream); break;
    case gelu_backward: launch<gelu_backward>(a, stream); break;
    case gelu_erf_forward: launch<gelu_erf_forward>(a, stream); break;
    case gelu_erf_backward: launch<gelu_erf_backward>(a, stream); break;
    case swiglu_forward: launch<swiglu_forward>(a, stream); break;
    case swiglu_backward: launch<swiglu_backward>(a, stream); break;
  }
  return launch_failure();
}

}  // namespace trainyard::kernels

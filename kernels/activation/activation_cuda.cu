// Activations, 16 bytes a thread where rows allow it.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T, int V> __global__ void activation_kernel(ActivationArgs a) {
  using F = compute_t<T>;
  const std::int64_t groups = a.x.cols / V;
  TRAINYARD_EACH(i, a.x.rows * groups) {
    const auto [r, g] = place_of(i, groups);
    const auto c = g * V;
    const auto x = vec_at<V>(a.x.row<T>(r) + c);
    Vec<T, V> y{}, second{};
    const bool up_given = a.kernel == ActivationKernel::swiglu_forward || a.kernel == ActivationKernel::swiglu_backward;
    const bool backward = a.kernel == ActivationKernel::gelu_backward ||
                          a.kernel == ActivationKernel::gelu_erf_backward ||
                          a.kernel == ActivationKernel::swiglu_backward;
    const auto up = up_given ? vec_at<V>(a.up.row<T>(r) + c) : x;
    const auto dy = backward ? vec_at<V>(a.dy.row<T>(r) + c) : x;
    for (int k = 0; k < V; ++k) {
      const F in = widen(x.v[k]), u = widen(up.v[k]), d = widen(dy.v[k]);
      switch (a.kernel) {
        case ActivationKernel::gelu_forward: store(&y.v[k], gelu_of(in)); break;
        case ActivationKernel::gelu_backward: store(&y.v[k], d * gelu_slope(in)); break;
        case ActivationKernel::gelu_erf_forward: store(&y.v[k], gelu_erf_of(in)); break;
        case ActivationKernel::gelu_erf_backward: store(&y.v[k], d * gelu_erf_slope(in)); break;
        case ActivationKernel::swiglu_forward: store(&y.v[k], in / (F(1) + exp_of(-in)) * u); break;
        case ActivationKernel::swiglu_backward: {
          const F s = F(1) / (F(1) + exp_of(-in));
          store(&y.v[k], d * u * s * (F(1) + in * (F(1) - s)));
          store(&second.v[k], d * in * s);
          break;
        }
      }
    }
    put_vec(a.y.row<T>(r) + c, y);
    if (a.kernel == ActivationKernel::swiglu_backward) put_vec(a.dup.row<T>(r) + c, second);
  }
}

}  // namespace

const char* gpu::activation(const ActivationArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    constexpr auto one = activation_kernel<T, 1>, many = activation_kernel<T, vector_of<T>>;
    const bool grouped = in_groups(vector_of<T>, a.x, a.up, a.dy, a.y, a.dup);
    const auto kernel = grouped ? many : one;
    TRAINYARD_LAUNCH(kernel, false, blocks_for(a.x.rows * a.x.cols / (grouped ? vector_of<T> : 1)), 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

// Activations, one element a thread.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T> __global__ void activation_kernel(ActivationArgs a) {
  using F = compute_t<T>;
  TRAINYARD_EACH(i, a.x.rows * a.x.cols) {
    const auto r = i / a.x.cols, c = i % a.x.cols;
    const F x = widen(a.x.row<T>(r)[c]);
    T* y = a.y.row<T>(r) + c;
    switch (a.kernel) {
      case ActivationKernel::gelu_forward: store(y, gelu_of(x)); break;
      case ActivationKernel::gelu_backward: store(y, static_cast<F>(widen(a.dy.row<T>(r)[c])) * gelu_slope(x)); break;
      case ActivationKernel::swiglu_forward: store(y, x / (F(1) + exp_of(-x)) * widen(a.up.row<T>(r)[c])); break;
      case ActivationKernel::swiglu_backward: {
        const F up = widen(a.up.row<T>(r)[c]), dy = widen(a.dy.row<T>(r)[c]);
        const F s = F(1) / (F(1) + exp_of(-x));
        store(y, dy * up * s * (F(1) + x * (F(1) - s)));
        store(a.dup.row<T>(r) + c, dy * x * s);
        break;
      }
    }
  }
}

}  // namespace

const char* gpu::activation(const ActivationArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) { TRAINYARD_LAUNCH(activation_kernel<T>, false, blocks_for(a.x.rows * a.x.cols), 256, stream, a); });
  return launch_failure();
}

}  // namespace trainyard::kernels

// Dropout: each thread takes four channels, which share one Philox block.
#include "kernels/dropout/dropout_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

template <class T, bool grouped> __global__ void dropout_kernel(DropoutArgs a) {
  using F = compute_t<T>;
  const auto quads = (a.x.cols + 3) / 4;
  TRAINYARD_EACH(i, a.x.rows * quads) {
    const auto [r, quad] = place_of(i, quads);
    const auto keep = kept_of<F>(a, r, quad);
    const T* x = a.x.row<T>(r) + quad * 4;
    const T* residual = a.residual.empty() ? nullptr : a.residual.row<T>(r) + quad * 4;
    T* y = a.y.row<T>(r) + quad * 4;
    if constexpr (grouped) {
      const auto in = vec_at<4>(x), base = residual != nullptr ? vec_at<4>(residual) : in;
      Vec<T, 4> out;
      for (int k = 0; k < 4; ++k) {
        const F kept = keep(k, static_cast<F>(widen(in.v[k])));
        store(&out.v[k], residual != nullptr ? static_cast<F>(widen(base.v[k])) + kept : kept);
      }
      put_vec(y, out);
    } else {
      for (int k = 0; k < 4 && quad * 4 + k < a.x.cols; ++k) {
        const F kept = keep(k, static_cast<F>(widen(x[k])));
        store(&y[k], residual != nullptr ? static_cast<F>(widen(residual[k])) + kept : kept);
      }
    }
  }
}

}  // namespace

const char* gpu::dropout(const DropoutArgs& a, void* stream) {
  with_type(a.x.type, [&]<class T>(T*) {
    constexpr auto one = dropout_kernel<T, false>, many = dropout_kernel<T, sizeof(T) < 8>;
    const auto kernel = in_groups(4, a.x, a.residual, a.y) ? many : one;
    TRAINYARD_LAUNCH(kernel, false, blocks_for(a.x.rows * ((a.x.cols + 3) / 4)), 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

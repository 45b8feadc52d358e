// The sequence of lion.h with every operation rounded on its own, so that the bits are the CPU's.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

// Each thread updates V neighbouring elements at a time. W is the type of the working copy, where there is one.
template <class W, int V> __global__ void lion_kernel(LionArgs a) {
  auto* parameters = static_cast<float*>(a.parameter.data);
  const auto* gradients = static_cast<const float*>(a.gradient.data);
  auto* moments = static_cast<float*>(a.m.data);
  auto* working = static_cast<W*>(a.working.data);
  const float scale = a.numbers != nullptr ? a.numbers->gradient_scale : a.scale;
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  TRAINYARD_EACH(group, a.parameter.rows * a.parameter.cols / V) {
    const std::int64_t at = group * V;
    const auto gradient = vec_at<V>(gradients + at);
    auto p = vec_at<V>(parameters + at), m = vec_at<V>(moments + at);
    Vec<W, V> narrow;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      float decay = 0;
      for (int r = 0; r < a.ranges; ++r)
        if (at + k >= a.first[r] && at + k < a.end[r]) decay = a.weight_decay;
      const float g = __fmul_rn(gradient.v[k], scale);
      const float c = __fadd_rn(__fmul_rn(a.beta1, m.v[k]), __fmul_rn(a.rest1, g));
      const float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : c;
      const float u = __fadd_rn(sign, __fmul_rn(decay, p.v[k]));
      m.v[k] = __fadd_rn(__fmul_rn(a.beta2, m.v[k]), __fmul_rn(a.rest2, g));
      p.v[k] = __fsub_rn(p.v[k], __fmul_rn(a.learning_rate, u));
      store(&narrow.v[k], p.v[k]);
    }
    put_vec(moments + at, m);
    put_vec(parameters + at, p);
    if (working != nullptr) put_vec(working + at, narrow);
  }
}

}  // namespace

const char* gpu::lion(const LionArgs& a, void* stream) {
  const bool grouped = in_groups(4, a.parameter, a.gradient, a.m, a.working);
  const auto blocks = blocks_for(a.parameter.rows * a.parameter.cols / (grouped ? 4 : 1));
  with_narrow_type(a.working.type, [&]<class W>(W*) {
    constexpr auto one = lion_kernel<W, 1>, many = lion_kernel<W, 4>;
    const auto kernel = grouped ? many : one;
    TRAINYARD_LAUNCH(kernel, false, blocks, 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

// The sequence of adamw.h with every operation rounded on its own, so that the bits are the CPU's.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

// Each thread updates V neighbouring elements at a time. W is the type of the working copy, where there is one.
template <class W, int V> __global__ void adamw_kernel(AdamWArgs a) {
  auto* parameters = static_cast<float*>(a.parameter.data);
  const auto* gradients = static_cast<const float*>(a.gradient.data);
  auto* firsts = static_cast<float*>(a.m.data);
  auto* seconds = static_cast<float*>(a.v.data);
  auto* working = static_cast<W*>(a.working.data);
  const float scale = a.numbers != nullptr ? a.numbers->gradient_scale : a.scale;
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  TRAINYARD_EACH(group, a.parameter.rows * a.parameter.cols / V) {
    const std::int64_t at = group * V;
    const auto gradient = vec_at<V>(gradients + at);
    auto p = vec_at<V>(parameters + at), m = vec_at<V>(firsts + at), v = vec_at<V>(seconds + at);
    Vec<W, V> narrow;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      float decay = 0;
      for (int r = 0; r < a.ranges; ++r)
        if (at + k >= a.first[r] && at + k < a.end[r]) decay = a.weight_decay;
      float g = __fmul_rn(gradient.v[k], scale);
      if (a.decay_in_gradient) g = __fadd_rn(g, __fmul_rn(decay, p.v[k]));
      m.v[k] = __fadd_rn(__fmul_rn(a.beta1, m.v[k]), __fmul_rn(a.rest1, g));
      v.v[k] = __fadd_rn(__fmul_rn(a.beta2, v.v[k]), __fmul_rn(a.rest2, __fmul_rn(g, g)));
      const float d = __fadd_rn(__fsqrt_rn(__fmul_rn(v.v[k], a.correction2)), a.epsilon);
      float u = __fdiv_rn(__fmul_rn(m.v[k], a.correction1), d);
      if (!a.decay_in_gradient) u = __fadd_rn(u, __fmul_rn(decay, p.v[k]));
      p.v[k] = __fsub_rn(p.v[k], __fmul_rn(a.learning_rate, u));
      store(&narrow.v[k], p.v[k]);
    }
    put_vec(firsts + at, m);
    put_vec(seconds + at, v);
    put_vec(parameters + at, p);
    if (working != nullptr) put_vec(working + at, narrow);
  }
}

}  // namespace

const char* gpu::adamw(const AdamWArgs& a, void* stream) {
  const bool grouped = in_groups(4, a.parameter, a.gradient, a.m, a.v, a.working);
  const auto blocks = blocks_for(a.parameter.rows * a.parameter.cols / (grouped ? 4 : 1));
  with_narrow_type(a.working.type, [&]<class W>(W*) {
    constexpr auto one = adamw_kernel<W, 1>, many = adamw_kernel<W, 4>;
    const auto kernel = grouped ? many : one;
    TRAINYARD_LAUNCH(kernel, false, blocks, 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

// The written sequence of adamw.h with every operation rounded on its own: the bits of the CPU.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

__global__ void adamw_kernel(AdamWArgs a) {
  auto* p = static_cast<float*>(a.parameter.data);
  const auto* gradient = static_cast<const float*>(a.gradient.data);
  auto* m = static_cast<float*>(a.m.data);
  auto* v = static_cast<float*>(a.v.data);
  auto* working = static_cast<b16*>(a.working.data);
  const float scale = a.numbers != nullptr ? a.numbers->gradient_scale : a.scale;
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  TRAINYARD_EACH(i, a.parameter.rows * a.parameter.cols) {
    const float g = __fmul_rn(gradient[i], scale);
    const float mi = __fadd_rn(__fmul_rn(a.beta1, m[i]), __fmul_rn(a.rest1, g));
    const float vi = __fadd_rn(__fmul_rn(a.beta2, v[i]), __fmul_rn(a.rest2, __fmul_rn(g, g)));
    const float d = __fadd_rn(__fsqrt_rn(__fmul_rn(vi, a.correction2)), a.epsilon);
    float decay = 0;
    for (int r = 0; r < a.ranges; ++r)
      if (i >= a.first[r] && i < a.end[r]) decay = a.weight_decay;
    const float u = __fadd_rn(__fdiv_rn(__fmul_rn(mi, a.correction1), d), __fmul_rn(decay, p[i]));
    const float next = __fsub_rn(p[i], __fmul_rn(a.learning_rate, u));
    m[i] = mi;
    v[i] = vi;
    p[i] = next;
    if (working != nullptr) store(&working[i], next);
  }
}

}  // namespace

const char* gpu::adamw(const AdamWArgs& a, void* stream) {
  TRAINYARD_LAUNCH(adamw_kernel, false, blocks_for(a.parameter.rows * a.parameter.cols), 256, stream, a);
  return launch_failure();
}

}  // namespace trainyard::kernels

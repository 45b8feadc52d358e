// The sequences of muon.h with every operation rounded on its own, so that the bits are the CPU's.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

// M is the type of m.
template <class M> __global__ void muon_direction_kernel(MuonArgs a) {
  auto* gradient = a.gradient.ptr<float>();
  auto* m = a.m.ptr<M>();
  const float scale = a.numbers != nullptr ? a.numbers->gradient_scale : a.scale;
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  TRAINYARD_EACH(i, a.gradient.rows * a.gradient.cols) {
    const float g = __fmul_rn(gradient[i], scale);
    const float b = __fadd_rn(__fmul_rn(a.momentum, widen(m[i])), g);
    store(&m[i], b);
    gradient[i] = a.nesterov ? __fadd_rn(g, __fmul_rn(a.momentum, b)) : b;
  }
}

// W is the type of the working copy, where there is one.
template <class W> __global__ void muon_update_kernel(MuonArgs a) {
  const auto* update = a.update.ptr<float>();
  auto* parameter = a.parameter.ptr<float>();
  auto* working = static_cast<W*>(a.working.data);
  if (a.numbers != nullptr && a.numbers->finite == 0) return;
  TRAINYARD_EACH(i, a.update.rows * a.update.cols) {
    float decay = 0;
    for (int r = 0; r < a.ranges; ++r)
      if (i >= a.first[r] && i < a.end[r]) decay = a.weight_decay;
    const float p = parameter[i];
    parameter[i] = __fsub_rn(p, __fmul_rn(a.learning_rate, __fadd_rn(update[i], __fmul_rn(decay, p))));
    if (working != nullptr) store(&working[i], parameter[i]);
  }
}

}  // namespace

const char* gpu::muon(const MuonArgs& a, void* stream) {
  if (!a.m.empty()) {
    with_type_of_f32_sums(a.m.type, [&]<class M>(M*) {
      constexpr auto kernel = muon_direction_kernel<M>;
      TRAINYARD_LAUNCH(kernel, false, blocks_for(a.m.rows * a.m.cols), 256, stream, a);
    });
    return launch_failure();
  }
  const auto blocks = blocks_for(a.update.rows * a.update.cols);
  with_narrow_type(a.working.type, [&]<class W>(W*) {
    constexpr auto kernel = muon_update_kernel<W>;
    TRAINYARD_LAUNCH(kernel, false, blocks, 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

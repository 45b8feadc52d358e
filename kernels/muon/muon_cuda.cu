// The sequence of muon.h with every operation rounded on its own, so that the bits are the CPU's.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"

namespace trainyard::kernels {
namespace {

// M is the type of m.
template <class M> __global__ void muon_direction_kernel(MuonDirectionArgs a) {
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

}  // namespace

const char* gpu::muon_direction(const MuonDirectionArgs& a, void* stream) {
  with_type_of_f32_sums(a.m.type, [&]<class M>(M*) {
    constexpr auto kernel = muon_direction_kernel<M>;
    TRAINYARD_LAUNCH(kernel, false, blocks_for(a.m.rows * a.m.cols), 256, stream, a);
  });
  return launch_failure();
}

}  // namespace trainyard::kernels

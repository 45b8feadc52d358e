// Checks the views of Muon's momentum, and dispatches.
#include "kernels/muon/muon.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/muon/muon_args.h"

namespace trainyard::kernels {

void muon_direction(tensor::Exec& exec, const MuonDirection& d) {
  require_type(d.gradient, base::DType::f32, "muon_direction", "gradient");
  require_type_of_sums(d.m, base::DType::f32, "muon_direction", "m");
  TRAINYARD_ASSERT(d.gradient.count() == d.m.count() && d.gradient.dense() && d.m.dense(),
                   "muon_direction: gradient of {} elements for {} of m", d.gradient.count(), d.m.count());
  MuonDirectionArgs a{.gradient = mat(d.gradient),
                      .m = mat(d.m),
                      .momentum = d.hyper.momentum,
                      .scale = d.hyper.gradient_scale,
                      .nesterov = d.hyper.nesterov,
                      .threads = exec.threads()};
  if (exec.on_gpu()) {
    a.numbers = d.hyper.numbers;
    return exec.run([&exec, a] {
      tensor::require_gpu(gpu_kernels().muon_direction(a, exec.stream()), "muon_direction on the GPU");
    });
  }
  exec.run([a, numbers = d.hyper.numbers]() mutable {
    if (numbers != nullptr && numbers->finite == 0) return;
    if (numbers != nullptr) a.scale = numbers->gradient_scale;
    TRAINYARD_CPU_CALL(muon_direction_cpu, (a));
  });
}

}  // namespace trainyard::kernels

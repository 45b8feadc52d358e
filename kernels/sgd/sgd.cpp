// Checks the views of SGD, and dispatches.
#include "kernels/sgd/sgd.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/sgd/sgd_args.h"

namespace trainyard::kernels {

namespace {

SgdArgs sgd_arguments(tensor::Exec& exec, const Sgd& h, base::View parameter, base::View gradient, base::View buffer,
                      base::View working) {
  for (const auto& x :
       {NamedView{"parameter", parameter}, NamedView{"gradient", gradient}, NamedView{"buffer", buffer}}) {
    require_type(x.view, base::DType::f32, "sgd_update", x.name);
    TRAINYARD_ASSERT(x.view.count() == parameter.count() && x.view.dense(), "sgd_update: {} of {} elements for {}",
                     x.name, x.view.count(), parameter.count());
  }
  require_types(working, narrow_types, "sgd_update", "working");
  TRAINYARD_ASSERT(!working || working.count() == parameter.count(), "working copy of {} elements", working.count());
  return {mat(parameter), mat(gradient),  mat(buffer),      mat(working), h.learning_rate,
          h.momentum,     h.weight_decay, h.gradient_scale, h.nesterov,   exec.threads()};
}

}  // namespace

void sgd_update(tensor::Exec& exec, const Sgd& h, base::View parameter, base::View gradient, base::View buffer,
                base::View working, std::span<const Range> decayed) {
  TRAINYARD_ASSERT(decayed.size() <= most_decayed_ranges, "{} ranges", decayed.size());
  auto all = sgd_arguments(exec, h, parameter, gradient, buffer, working);
  if (exec.on_gpu()) {
    all.numbers = h.numbers;
    for (const auto& r : decayed) all.first[all.ranges] = r.first, all.end[all.ranges++] = r.end;
    return exec.run([&exec, all] { tensor::require_gpu(gpu_kernels().sgd(all, exec.stream()), "sgd on the GPU"); });
  }
  for_each_stretch(parameter.count(), decayed, [&](Range r, bool decays) {
    auto with = h;
    if (!decays) with.weight_decay = 0;
    auto a = sgd_arguments(exec, with, elements_of(parameter, r), elements_of(gradient, r), elements_of(buffer, r),
                           elements_of(working, r));
    exec.run([a, numbers = h.numbers]() mutable {
      if (numbers != nullptr && numbers->finite == 0) return;
      if (numbers != nullptr) a.scale = numbers->gradient_scale;
      TRAINYARD_CPU_CALL(sgd_cpu, (a));
    });
  });
}

}  // namespace trainyard::kernels

// Computes the rounded constants of AdamW, and dispatches.
#include "kernels/adamw/adamw.h"

#include "kernels/adamw/adamw_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

AdamWArgs arguments(tensor::Exec& exec, const AdamW& h, base::View parameter, base::View gradient, base::View m,
                    base::View v, base::View working) {
  for (const auto& x :
       {NamedView{"parameter", parameter}, NamedView{"gradient", gradient}, NamedView{"m", m}, NamedView{"v", v}}) {
    require_type(x.view, base::DType::f32, "adamw_update", x.name);
    TRAINYARD_ASSERT(x.view.count() == parameter.count() && x.view.dense(), "adamw_update: {} of {} elements for {}",
                     x.name, x.view.count(), parameter.count());
  }
  require_types(working, narrow_types, "adamw_update", "working");
  TRAINYARD_ASSERT(!working || working.count() == parameter.count(), "working copy of {} elements", working.count());
  return {.parameter = mat(parameter),
          .gradient = mat(gradient),
          .m = mat(m),
          .v = mat(v),
          .working = mat(working),
          .learning_rate = h.learning_rate,
          .beta1 = h.beta1,
          .beta2 = h.beta2,
          .rest1 = static_cast<float>(1.0 - static_cast<double>(h.beta1)),
          .rest2 = static_cast<float>(1.0 - static_cast<double>(h.beta2)),
          .correction1 = static_cast<float>(1.0 / h.bias1),
          .correction2 = static_cast<float>(1.0 / h.bias2),
          .epsilon = h.epsilon,
          .weight_decay = h.weight_decay,
          .scale = h.gradient_scale,
          .threads = exec.threads()};
}

}  // namespace

void adamw_update(tensor::Exec& exec, const AdamW& h, base::View parameter, base::View gradient, base::View m,
                  base::View v, base::View working) {
  const Range all{0, parameter.count()};
  adamw_update(exec, h, parameter, gradient, m, v, working, std::span(&all, 1));
}

void adamw_update(tensor::Exec& exec, const AdamW& h, base::View parameter, base::View gradient, base::View m,
                  base::View v, base::View working, std::span<const Range> decayed) {
  TRAINYARD_ASSERT(decayed.size() <= most_decayed_ranges, "{} ranges", decayed.size());
  if (exec.on_gpu()) {
    auto a = arguments(exec, h, parameter, gradient, m, v, working);
    a.numbers = h.numbers;
    for (const auto& r : decayed) a.first[a.ranges] = r.first, a.end[a.ranges++] = r.end;
    return exec.run([&exec, a] { tensor::require_gpu(gpu_kernels().adamw(a, exec.stream()), "adamw on the GPU"); });
  }
  arguments(exec, h, parameter, gradient, m, v, working);  // only checks that the views fit together
  for_each_stretch(parameter.count(), decayed, [&](Range r, bool decays) {
    auto with = h;
    if (!decays) with.weight_decay = 0;
    auto a = arguments(exec, with, elements_of(parameter, r), elements_of(gradient, r), elements_of(m, r),
                       elements_of(v, r), elements_of(working, r));
    exec.run([a, numbers = h.numbers]() mutable {
      if (numbers != nullptr && numbers->finite == 0) return;
      if (numbers != nullptr) a.scale = numbers->gradient_scale;
      TRAINYARD_CPU_CALL(adamw_cpu, (a));
    });
  });
}

}  // namespace trainyard::kernels

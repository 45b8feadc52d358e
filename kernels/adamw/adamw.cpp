// Computes the rounded constants of AdamW, and dispatches.
#include "kernels/adamw/adamw.h"

#include "kernels/adamw/adamw_args.h"
#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

AdamWArgs arguments(tensor::Exec& exec, const AdamWUpdate& u) {
  const auto& h = u.hyper;
  for (const auto& x : {NamedView{"parameter", u.parameter}, NamedView{"gradient", u.gradient}, NamedView{"m", u.m},
                        NamedView{"v", u.v}}) {
    require_type(x.view, base::DType::f32, "adamw_update", x.name);
    TRAINYARD_ASSERT(x.view.count() == u.parameter.count() && x.view.dense(), "adamw_update: {} of {} elements for {}",
                     x.name, x.view.count(), u.parameter.count());
  }
  require_types(u.working, narrow_types, "adamw_update", "working");
  TRAINYARD_ASSERT(!u.working || u.working.count() == u.parameter.count(), "working copy of {} elements",
                   u.working.count());
  return {.parameter = mat(u.parameter),
          .gradient = mat(u.gradient),
          .m = mat(u.m),
          .v = mat(u.v),
          .working = mat(u.working),
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
          .decay_in_gradient = h.decay_in_gradient,
          .threads = exec.threads()};
}

}  // namespace

void adamw_update(tensor::Exec& exec, const AdamWUpdate& u) {
  const Range whole{0, u.parameter.count()};
  const auto decayed = u.decayed.value_or(std::span(&whole, 1));
  TRAINYARD_ASSERT(decayed.size() <= most_decayed_ranges, "{} ranges", decayed.size());
  auto all = arguments(exec, u);
  if (exec.on_gpu()) {
    all.numbers = u.hyper.numbers;
    for (const auto& r : decayed) all.first[all.ranges] = r.first, all.end[all.ranges++] = r.end;
    return exec.run([&exec, all] { tensor::require_gpu(gpu_kernels().adamw(all, exec.stream()), "adamw on the GPU"); });
  }
  for_each_stretch(u.parameter.count(), decayed, [&](Range r, bool decays) {
    auto part = u;
    if (!decays) part.hyper.weight_decay = 0;
    part.gradient = elements_of(u.gradient, r), part.parameter = elements_of(u.parameter, r);
    part.m = elements_of(u.m, r), part.v = elements_of(u.v, r), part.working = elements_of(u.working, r);
    exec.run([a = arguments(exec, part), numbers = u.hyper.numbers]() mutable {
      if (numbers != nullptr && numbers->finite == 0) return;
      if (numbers != nullptr) a.scale = numbers->gradient_scale;
      TRAINYARD_CPU_CALL(adamw_cpu, (a));
    });
  });
}

}  // namespace trainyard::kernels

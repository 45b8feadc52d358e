// Checks the views of Lion, and dispatches.
#include "kernels/lion/lion.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/lion/lion_args.h"

namespace trainyard::kernels {

namespace {

LionArgs lion_arguments(tensor::Exec& exec, const LionUpdate& u) {
  const auto& h = u.hyper;
  for (const auto& x : {NamedView{"parameter", u.parameter}, NamedView{"gradient", u.gradient}, NamedView{"m", u.m}}) {
    require_type(x.view, base::DType::f32, "lion_update", x.name);
    TRAINYARD_ASSERT(x.view.count() == u.parameter.count() && x.view.dense(), "lion_update: {} of {} elements for {}",
                     x.name, x.view.count(), u.parameter.count());
  }
  require_types(u.working, narrow_types, "lion_update", "working");
  TRAINYARD_ASSERT(!u.working || u.working.count() == u.parameter.count(), "working copy of {} elements",
                   u.working.count());
  return {.parameter = mat(u.parameter),
          .gradient = mat(u.gradient),
          .m = mat(u.m),
          .working = mat(u.working),
          .learning_rate = h.learning_rate,
          .beta1 = h.beta1,
          .beta2 = h.beta2,
          .rest1 = static_cast<float>(1.0 - static_cast<double>(h.beta1)),
          .rest2 = static_cast<float>(1.0 - static_cast<double>(h.beta2)),
          .weight_decay = h.weight_decay,
          .scale = h.gradient_scale,
          .threads = exec.threads()};
}

}  // namespace

void lion_update(tensor::Exec& exec, const LionUpdate& u) {
  const Range whole{0, u.parameter.count()};
  const auto decayed = u.decayed.value_or(std::span(&whole, 1));
  TRAINYARD_ASSERT(decayed.size() <= most_decayed_ranges, "{} ranges", decayed.size());
  auto all = lion_arguments(exec, u);
  if (exec.on_gpu()) {
    all.numbers = u.hyper.numbers;
    for (const auto& r : decayed) all.first[all.ranges] = r.first, all.end[all.ranges++] = r.end;
    return exec.run([&exec, all] { tensor::require_gpu(gpu_kernels().lion(all, exec.stream()), "lion on the GPU"); });
  }
  for_each_stretch(u.parameter.count(), decayed, [&](Range r, bool decays) {
    auto part = u;
    if (!decays) part.hyper.weight_decay = 0;
    part.gradient = elements_of(u.gradient, r), part.parameter = elements_of(u.parameter, r);
    part.m = elements_of(u.m, r), part.working = elements_of(u.working, r);
    exec.run([a = lion_arguments(exec, part), numbers = u.hyper.numbers]() mutable {
      if (numbers != nullptr && numbers->finite == 0) return;
      if (numbers != nullptr) a.scale = numbers->gradient_scale;
      TRAINYARD_CPU_CALL(lion_cpu, (a));
    });
  });
}

}  // namespace trainyard::kernels

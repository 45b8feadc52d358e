// Checks the views of SGD, and dispatches.
#include "kernels/sgd/sgd.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/sgd/sgd_args.h"

namespace trainyard::kernels {

namespace {

SgdArgs sgd_arguments(tensor::Exec& exec, const SgdUpdate& u) {
  const auto& h = u.hyper;
  for (const auto& x :
       {NamedView{"parameter", u.parameter}, NamedView{"gradient", u.gradient}, NamedView{"buffer", u.buffer}}) {
    require_type(x.view, base::DType::f32, "sgd_update", x.name);
    TRAINYARD_ASSERT(x.view.count() == u.parameter.count() && x.view.dense(), "sgd_update: {} of {} elements for {}",
                     x.name, x.view.count(), u.parameter.count());
  }
  require_types(u.working, narrow_types, "sgd_update", "working");
  TRAINYARD_ASSERT(!u.working || u.working.count() == u.parameter.count(), "working copy of {} elements",
                   u.working.count());
  return {.parameter = mat(u.parameter),
          .gradient = mat(u.gradient),
          .buffer = mat(u.buffer),
          .working = mat(u.working),
          .learning_rate = h.learning_rate,
          .momentum = h.momentum,
          .weight_decay = h.weight_decay,
          .scale = h.gradient_scale,
          .nesterov = h.nesterov,
          .threads = exec.threads()};
}

}  // namespace

void sgd_update(tensor::Exec& exec, const SgdUpdate& u) {
  const Range whole{0, u.parameter.count()};
  const auto decayed = u.decayed.value_or(std::span(&whole, 1));
  TRAINYARD_ASSERT(decayed.size() <= most_decayed_ranges, "{} ranges", decayed.size());
  auto all = sgd_arguments(exec, u);
  if (exec.on_gpu()) {
    all.numbers = u.hyper.numbers;
    for (const auto& r : decayed) all.first[all.ranges] = r.first, all.end[all.ranges++] = r.end;
    return exec.run([&exec, all] { tensor::require_gpu(gpu_kernels().sgd(all, exec.stream()), "sgd on the GPU"); });
  }
  for_each_stretch(u.parameter.count(), decayed, [&](Range r, bool decays) {
    auto part = u;
    if (!decays) part.hyper.weight_decay = 0;
    part.gradient = elements_of(u.gradient, r), part.parameter = elements_of(u.parameter, r);
    part.buffer = elements_of(u.buffer, r), part.working = elements_of(u.working, r);
    exec.run([a = sgd_arguments(exec, part), numbers = u.hyper.numbers]() mutable {
      if (numbers != nullptr && numbers->finite == 0) return;
      if (numbers != nullptr) a.scale = numbers->gradient_scale;
      TRAINYARD_CPU_CALL(sgd_cpu, (a));
    });
  });
}

}  // namespace trainyard::kernels

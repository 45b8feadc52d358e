// Checks the views of Muon's element-wise parts, and dispatches.
#include "kernels/muon/muon.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/muon/muon_args.h"

#include <array>

namespace trainyard::kernels {

namespace {

void require_alike(const char* operation, const NamedView& a, const NamedView& b) {
  TRAINYARD_ASSERT(a.view.count() == b.view.count() && a.view.dense() && b.view.dense(), "{}: {} of {} elements for {}",
                   operation, a.name, a.view.count(), b.view.count());
}

MuonArgs muon_arguments(tensor::Exec& exec, const Muon& h) {
  return {.gradient = {},
          .m = {},
          .update = {},
          .parameter = {},
          .working = {},
          .learning_rate = h.learning_rate,
          .momentum = h.momentum,
          .weight_decay = h.weight_decay,
          .scale = h.gradient_scale,
          .nesterov = h.nesterov,
          .threads = exec.threads()};
}

void run_muon(tensor::Exec& exec, MuonArgs a, const StepNumbers* numbers) {
  if (exec.on_gpu()) {
    a.numbers = numbers;
    return exec.run([&exec, a] { tensor::require_gpu(gpu_kernels().muon(a, exec.stream()), "muon on the GPU"); });
  }
  exec.run([a, numbers]() mutable {
    if (numbers != nullptr && numbers->finite == 0) return;
    if (numbers != nullptr) a.scale = numbers->gradient_scale;
    TRAINYARD_CPU_CALL(muon_cpu, (a));
  });
}

}  // namespace

void muon_direction(tensor::Exec& exec, const MuonDirection& d) {
  constexpr std::array types{base::DType::f32, base::DType::bf16, base::DType::f16};
  require_type(d.gradient, base::DType::f32, "muon_direction", "gradient");
  require_types(d.m, types, "muon_direction", "m");
  require_alike("muon_direction", {"gradient", d.gradient}, {"m", d.m});
  auto a = muon_arguments(exec, d.hyper);
  a.gradient = mat(d.gradient), a.m = mat(d.m);
  run_muon(exec, a, d.hyper.numbers);
}

void muon_update(tensor::Exec& exec, const MuonUpdate& u) {
  require_type(u.update, base::DType::f32, "muon_update", "update");
  require_type(u.parameter, base::DType::f32, "muon_update", "parameter");
  require_alike("muon_update", {"update", u.update}, {"parameter", u.parameter});
  require_types(u.working, narrow_types, "muon_update", "working");
  TRAINYARD_ASSERT(!u.working || u.working.count() == u.parameter.count(), "working copy of {} elements",
                   u.working.count());
  const Range whole{0, u.parameter.count()};
  const auto decayed = u.decayed.value_or(std::span(&whole, 1));
  TRAINYARD_ASSERT(decayed.size() <= most_decayed_ranges, "{} ranges", decayed.size());
  const auto of_range = [&](Range r) {
    auto a = muon_arguments(exec, u.hyper);
    a.update = mat(elements_of(u.update, r)), a.parameter = mat(elements_of(u.parameter, r));
    a.working = mat(elements_of(u.working, r));
    return a;
  };
  if (exec.on_gpu()) {
    auto all = of_range(whole);
    for (const auto& r : decayed) all.first[all.ranges] = r.first, all.end[all.ranges++] = r.end;
    return run_muon(exec, all, u.hyper.numbers);
  }
  for_each_stretch(u.parameter.count(), decayed, [&](Range r, bool decays) {
    auto part = of_range(r);
    if (!decays) part.weight_decay = 0;
    run_muon(exec, part, u.hyper.numbers);
  });
}

}  // namespace trainyard::kernels

// Checks the views of an update, and dispatches by rule and device.
#include "kernels/update/update.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"
#include "kernels/update/remainder_check.h"
#include "kernels/update/update_args.h"
#include "libtrain/base/index.h"

namespace trainyard::kernels {

namespace {

#define TRAINYARD_UPDATE_CALLS(name, Args)                                   \
  void update_on_cpu(const Args& a) { TRAINYARD_CPU_CALL(name##_cpu, (a)); } \
  void update_on_gpu(const Args& a, void* stream) {                          \
    tensor::require_gpu(gpu_kernels().name(a, stream), #name " on the GPU"); \
  }
TRAINYARD_UPDATE_RULES(TRAINYARD_UPDATE_CALLS)
#undef TRAINYARD_UPDATE_CALLS

template <class Rule> void require_operands(const Update& u) {
  const std::span<const char* const> names(Rule::states);
  const auto require = [&](const char* name, const base::ConstView& view, base::DType type = base::DType::f32) {
    require_type(view, type, "update", name);
    TRAINYARD_ASSERT(view.count() == u.gradient.count() && view.dense(), "update: {} of {} elements for {}", name,
                     view.count(), u.gradient.count());
  };
  require("gradient", u.gradient);
  if (!u.remainder) require("parameter", u.parameter);
  else TRAINYARD_ASSERT(!u.parameter, "update: a parameter of {} elements beside its remainder", u.parameter.count());
  const auto of_states = dtype_of_states(u.states[0]);
  for (std::size_t s = 0; s < u.states.size(); ++s)
    if (s < names.size()) require(names[s], u.states[s], of_states);
    else TRAINYARD_ASSERT(!u.states[s], "update: state {} of a rule that has {}", s + 1, names.size());
  if (u.remainder) require_remainder(u.remainder, u.working, u.gradient.count(), "update");
  require_types(u.working, narrow_types, "update", "working");
  TRAINYARD_ASSERT(!u.working || u.working.count() == u.gradient.count(), "working copy of {} elements",
                   u.working.count());
}

template <class Rule> UpdateArgs<Rule> arguments(const Rule& rule, const Update& u) {
  UpdateArgs<Rule> a;
  a.parameter = mat(u.parameter), a.gradient = mat(u.gradient), a.working = mat(u.working);
  a.sequence = rule.sequence();
  a.learning_rate = rule.learning_rate, a.weight_decay = rule.weight_decay, a.scale = rule.gradient_scale;
  for (int s = 0; s < UpdateArgs<Rule>::states_of_rule; ++s) a.states[s] = mat(base::at(u.states, s));
  a.remainder = remainder_part(u.remainder);
  return a;
}

// The operands' elements in a range.
Update part_of_update(const Update& u, Range r) {
  auto part = u;
  part.gradient = elements_of(u.gradient, r), part.parameter = elements_of(u.parameter, r);
  for (auto& state : part.states) state = elements_of(state, r);
  part.working = elements_of(u.working, r);
  part.remainder = u.remainder.from(r.first);
  return part;
}

template <class Rule> void update_by(tensor::Exec& exec, const Rule& rule, const Update& u) {
  const Range whole{0, u.gradient.count()};
  const auto decayed = u.decayed.value_or(std::span(&whole, 1));
  TRAINYARD_ASSERT(decayed.size() <= most_decayed_ranges, "{} ranges", decayed.size());
  require_operands<Rule>(u);
  if (exec.on_gpu()) {
    auto all = arguments(rule, u);
    all.numbers = rule.numbers, all.rate_factor = rule.rate_factor;
    for (const auto& r : decayed) all.first[all.ranges] = r.first, all.end[all.ranges++] = r.end;
    return exec.run([&exec, all] { update_on_gpu(all, exec.stream()); });
  }
  for_each_stretch(u.gradient.count(), decayed, [&](Range r, bool decays) {
    auto a = arguments(rule, part_of_update(u, r));
    if (!decays) a.weight_decay = 0;
    a.threads = exec.threads();
    exec.run([a, numbers = rule.numbers, factor = rule.rate_factor]() mutable {
      if (numbers != nullptr && numbers->finite == 0) return;
      if (numbers != nullptr) a.scale = numbers->gradient_scale;
      if (factor != nullptr) a.learning_rate = a.learning_rate * *factor;
      update_on_cpu(a);
    });
  });
}

}  // namespace

void update(tensor::Exec& exec, const Update& u) {
  std::visit([&](const auto& rule) { update_by(exec, rule, u); }, u.rule);
}

}  // namespace trainyard::kernels

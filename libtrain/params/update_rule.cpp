// The numbers of each optimizer's kernel, and its call.
#include "libtrain/params/update_rule.h"

#include "libtrain/base/error.h"

#include <cmath>

namespace trainyard::params {

namespace {

kernels::AdamW adamw_rule(const OptimizerSettings& s, std::int64_t step, bool decay_in_gradient = false) {
  const auto t = static_cast<double>(step);
  kernels::AdamW rule;
  rule.beta1 = static_cast<float>(s.beta1);
  rule.beta2 = static_cast<float>(s.beta2);
  rule.epsilon = static_cast<float>(s.epsilon);
  rule.weight_decay = static_cast<float>(s.weight_decay);
  rule.bias1 = 1 - std::pow(s.beta1, t);
  rule.bias2 = 1 - std::pow(s.beta2, t);
  rule.decay_in_gradient = decay_in_gradient;
  return rule;
}

kernels::Lion lion_rule(const OptimizerSettings& s) {
  kernels::Lion rule;
  rule.beta1 = static_cast<float>(s.beta1);
  rule.beta2 = static_cast<float>(s.beta2);
  rule.weight_decay = static_cast<float>(s.weight_decay);
  return rule;
}

kernels::Sgd sgd_rule(const OptimizerSettings& s) {
  kernels::Sgd rule;
  rule.momentum = static_cast<float>(s.momentum);
  rule.weight_decay = static_cast<float>(s.weight_decay);
  rule.nesterov = s.nesterov;
  return rule;
}

UpdateRule rule_named(const std::string& optimizer, const OptimizerSettings& s, std::int64_t step) {
  if (optimizer == "adam") return adamw_rule(s, step, true);
  if (optimizer == "adamw" || optimizer == "muon") return adamw_rule(s, step);
  if (optimizer == "lion") return lion_rule(s);
  if (optimizer == "sgd") return sgd_rule(s);
  TRAINYARD_ASSERT(false, "the optimizer {} has no kernel (params/update_rule.h)", optimizer);
  return {};
}

void apply_rule(tensor::Exec& exec, const kernels::AdamW& rule, const UpdatedRange& r,
                std::span<const kernels::Range> decayed) {
  TRAINYARD_ASSERT(r.states.size() == 2, "AdamW with {} states", r.states.size());
  kernels::adamw_update(exec, {.hyper = rule,
                               .gradient = r.gradient,
                               .parameter = r.parameter,
                               .m = r.states[0],
                               .v = r.states[1],
                               .working = r.working,
                               .decayed = decayed});
}

void apply_rule(tensor::Exec& exec, const kernels::Lion& rule, const UpdatedRange& r,
                std::span<const kernels::Range> decayed) {
  TRAINYARD_ASSERT(r.states.size() == 1, "Lion with {} states", r.states.size());
  kernels::lion_update(exec, {.hyper = rule,
                              .gradient = r.gradient,
                              .parameter = r.parameter,
                              .m = r.states[0],
                              .working = r.working,
                              .decayed = decayed});
}

void apply_rule(tensor::Exec& exec, const kernels::Sgd& rule, const UpdatedRange& r,
                std::span<const kernels::Range> decayed) {
  TRAINYARD_ASSERT(r.states.size() == 1, "SGD with {} states", r.states.size());
  kernels::sgd_update(exec, {.hyper = rule,
                             .gradient = r.gradient,
                             .parameter = r.parameter,
                             .buffer = r.states[0],
                             .working = r.working,
                             .decayed = decayed});
}

}  // namespace

UpdateRule update_rule(const std::string& optimizer, const OptimizerSettings& settings, double learning_rate,
                       std::int64_t step, const kernels::StepNumbers* numbers) {
  auto rule = rule_named(optimizer, settings, step);
  std::visit(
      [&](auto& kernel) {
        kernel.learning_rate = static_cast<float>(learning_rate);
        kernel.numbers = numbers;
      },
      rule);
  return rule;
}

std::optional<kernels::Muon> matrix_rule(const std::string& optimizer, const OptimizerSettings& s,
                                         const UpdateRule& rule) {
  if (optimizer != "muon") return {};
  kernels::Muon matrices;
  matrices.momentum = static_cast<float>(s.momentum);
  matrices.nesterov = s.nesterov;
  std::visit(
      [&](const auto& others) {
        matrices.learning_rate = others.learning_rate, matrices.weight_decay = others.weight_decay;
        matrices.gradient_scale = others.gradient_scale, matrices.numbers = others.numbers;
      },
      rule);
  return matrices;
}

const kernels::StepNumbers* numbers_of(const UpdateRule& rule) {
  return std::visit([](const auto& kernel) { return kernel.numbers; }, rule);
}

void apply(tensor::Exec& exec, const UpdateRule& rule, const UpdatedRange& range,
           std::span<const kernels::Range> decayed) {
  std::visit([&](const auto& kernel) { apply_rule(exec, kernel, range, decayed); }, rule);
}

}  // namespace trainyard::params

// The numbers of each optimizer's kernel, and its call.
#include "libtrain/params/update_rule.h"

#include "libtrain/base/error.h"

#include <algorithm>
#include <cmath>

namespace trainyard::params {

namespace {

// Of an optimizer with two moments and their bias corrections.
template <class Rule> Rule moments_rule(const OptimizerSettings& s, std::int64_t step) {
  const auto t = static_cast<double>(step);
  Rule rule;
  rule.beta1 = static_cast<float>(s.beta1);
  rule.beta2 = static_cast<float>(s.beta2);
  rule.epsilon = static_cast<float>(s.epsilon);
  rule.bias1 = 1 - std::pow(s.beta1, t);
  rule.bias2 = 1 - std::pow(s.beta2, t);
  return rule;
}

kernels::AdamW adam_rule(const OptimizerSettings& s, std::int64_t step) {
  auto rule = moments_rule<kernels::AdamW>(s, step);
  rule.decay_in_gradient = true;
  return rule;
}

kernels::Lion lion_rule(const OptimizerSettings& s) {
  kernels::Lion rule;
  rule.beta1 = static_cast<float>(s.beta1);
  rule.beta2 = static_cast<float>(s.beta2);
  return rule;
}

kernels::Sgd sgd_rule(const OptimizerSettings& s) {
  kernels::Sgd rule;
  rule.momentum = static_cast<float>(s.momentum);
  rule.nesterov = s.nesterov;
  return rule;
}

UpdateRule rule_named(const std::string& optimizer, const OptimizerSettings& s, std::int64_t step) {
  if (optimizer == "adam") return adam_rule(s, step);
  if (optimizer == "adamw" || optimizer == "muon") return moments_rule<kernels::AdamW>(s, step);
  if (optimizer == "lamb") return moments_rule<kernels::Lamb>(s, step);
  if (optimizer == "lion") return lion_rule(s);
  if (optimizer == "sgd") return sgd_rule(s);
  TRAINYARD_ASSERT(false, "the optimizer {} has no kernel (params/update_rule.h)", optimizer);
  return {};
}

kernels::UpdateStep& step_of(UpdateRule& rule) {
  return std::visit([](kernels::UpdateStep& step) -> kernels::UpdateStep& { return step; }, rule);
}

// Of hidden matrices (plan::is_hidden_matrix), where they have a rule of their own. `rule`: of all other parameters.
std::optional<kernels::Muon> matrix_rule(const std::string& optimizer, const OptimizerSettings& s,
                                         const UpdateRule& rule) {
  if (optimizer != "muon") return {};
  kernels::Muon matrices;
  matrices.momentum = static_cast<float>(s.momentum);
  matrices.nesterov = s.nesterov;
  static_cast<kernels::UpdateStep&>(matrices) = std::visit([](const kernels::UpdateStep& step) { return step; }, rule);
  return matrices;
}

}  // namespace

UpdateRule update_rule(const std::string& optimizer, const OptimizerSettings& settings, double learning_rate,
                       std::int64_t step, const kernels::StepNumbers* numbers) {
  auto rule = rule_named(optimizer, settings, step);
  auto& now = step_of(rule);
  now.learning_rate = static_cast<float>(learning_rate);
  now.weight_decay = static_cast<float>(settings.weight_decay);
  now.numbers = numbers;
  return rule;
}

const kernels::StepNumbers* numbers_of(const UpdateRule& rule) {
  return std::visit([](const kernels::UpdateStep& step) { return step.numbers; }, rule);
}

namespace {

// The mean of the weights after `step` updates, each of which counts `decay` times as much as the one after it.
std::optional<kernels::Average> average_rule(double decay, std::int64_t step, const kernels::StepNumbers* numbers) {
  if (decay == 0) return {};
  kernels::Average rule;
  rule.learning_rate = static_cast<float>((1 - decay) / (1 - std::pow(decay, static_cast<double>(step))));
  rule.numbers = numbers;
  return rule;
}

}  // namespace

UpdateRules update_rules(const std::string& optimizer, const OptimizerSettings& s, double learning_rate,
                         std::int64_t step, const kernels::StepNumbers* numbers) {
  if (optimizer == "adafactor") {
    UpdateRules rules;
    rules.average = average_rule(s.average_decay, step, numbers);
    rules.numbers = numbers;
    rules.factored.emplace(kernels::Adafactor{.learning_rate = static_cast<float>(learning_rate),
                                              .weight_decay = static_cast<float>(s.weight_decay),
                                              .step = static_cast<double>(step),
                                              .beta2_decay = s.beta2_decay,
                                              .scale_parameter = s.scale_parameter,
                                              .numbers = numbers});
    return rules;
  }
  UpdateRules rules(update_rule(optimizer, s, learning_rate, step, numbers));
  rules.matrices = matrix_rule(optimizer, s, *rules.elements);
  rules.average = average_rule(s.average_decay, step, numbers);
  return rules;
}

UpdateRules with_numbers(UpdateRules rules, const kernels::StepNumbers* numbers) {
  rules.numbers = numbers;
  if (rules.elements) step_of(*rules.elements).numbers = numbers;
  if (rules.matrices) rules.matrices->numbers = numbers;
  if (rules.factored) rules.factored->numbers = numbers;
  if (rules.average) rules.average->numbers = numbers;
  return rules;
}

UpdateRule of_parameter(UpdateRule rule, double rate_scale, std::optional<double> weight_decay) {
  auto& step = step_of(rule);
  step = of_parameter(step, rate_scale, weight_decay);
  return rule;
}

void apply(tensor::Exec& exec, const UpdateRule& rule, const UpdatedRange& range,
           std::span<const kernels::Range> decayed) {
  kernels::Update update{.rule = rule,
                         .gradient = range.gradient,
                         .parameter = range.parameter,
                         .working = range.working,
                         .decayed = decayed,
                         .remainder = range.remainder};
  TRAINYARD_ASSERT(range.states.size() <= update.states.size(), "an update of {} states", range.states.size());
  std::ranges::copy(range.states, update.states.begin());
  kernels::update(exec, update);
}

}  // namespace trainyard::params

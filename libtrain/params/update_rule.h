// UpdateRule: what one step does to a range of parameters, as the numbers of the optimizer's kernel.
#pragma once

#include "kernels/adafactor/adafactor.h"
#include "kernels/update/update.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace trainyard::params {

// The settings that some optimizer reads (plan::OptimizerKind::settings); each optimizer reads its own.
struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
  double beta2_decay = 0.8;
  bool scale_parameter = true;
  double average_decay = 0;  // of the moving average, if there is one
};

using kernels::UpdateRule;

// What step `step` (the first is 1) does. `optimizer` is the name of a plan::OptimizerKind; std::logic_error for one
// that has no kernel here. `numbers`: in the device memory of the Exec, or null (kernels/step_numbers).
UpdateRule update_rule(const std::string& optimizer, const OptimizerSettings& settings, double learning_rate,
                       std::int64_t step, const kernels::StepNumbers* numbers);

const kernels::StepNumbers* numbers_of(const UpdateRule& rule);

// All rules of a step.
struct UpdateRules {
  std::optional<UpdateRule> elements;               // of every element, or of those that have no other rule
  std::optional<kernels::Muon> matrices = {};       // of hidden matrices
  std::optional<kernels::Adafactor> factored = {};  // of all parameters, by states of rows and columns
  const kernels::StepNumbers* numbers = nullptr;
  std::optional<kernels::Average> average = {};  // of all weights, after their update

  UpdateRules() = default;
  // Of an element-wise optimizer.
  template <class Rule>
  requires(std::is_constructible_v<UpdateRule, const Rule&>) UpdateRules(const Rule& rule)
      : elements(rule), numbers(numbers_of(*elements)) {}
};
// What step `step` (the first is 1) does with any optimizer. See update_rule.
UpdateRules update_rules(const std::string& optimizer, const OptimizerSettings& settings, double learning_rate,
                         std::int64_t step, const kernels::StepNumbers* numbers);

// The same rules, with the numbers of the step in other memory.
UpdateRules with_numbers(UpdateRules rules, const kernels::StepNumbers* numbers);

// The same rule for a parameter with its own rate and weight decay (plan::Parameter).
template <class Rule> Rule of_parameter(Rule rule, double rate_scale, std::optional<double> weight_decay) {
  rule.learning_rate = static_cast<float>(static_cast<double>(rule.learning_rate) * rate_scale);
  if (weight_decay) rule.weight_decay = static_cast<float>(*weight_decay);
  return rule;
}
UpdateRule of_parameter(UpdateRule rule, double rate_scale, std::optional<double> weight_decay);

// A range of a flat group. All views have the same elements: `parameter` and `gradient` are f32; `states`, in the order
// of plan::OptimizerKind::states, are all f32 or all bf16. `working` is the rounded copy of a narrow working dtype,
// else empty. With a `remainder` there is no `parameter` (kernels/update/remainder.h).
struct UpdatedRange {
  base::ConstView gradient;
  base::View parameter;
  std::span<const base::View> states;
  base::View working;
  kernels::Remainder remainder = {};
};
// Weight decay applies to the elements in `decayed`. std::logic_error if the rule has another number of states.
void apply(tensor::Exec& exec, const UpdateRule& rule, const UpdatedRange& range,
           std::span<const kernels::Range> decayed);

}  // namespace trainyard::params

// UpdateRule: what one step does to a range of parameters, as the numbers of the optimizer's kernel.
#pragma once

#include "kernels/adamw/adamw.h"
#include "kernels/lion/lion.h"
#include "kernels/muon/muon.h"
#include "kernels/sgd/sgd.h"

#include <cstdint>
#include <span>
#include <string>
#include <variant>

namespace trainyard::params {

// The settings that some optimizer reads (plan::OptimizerKind::settings); each optimizer reads its own.
struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
};

// Muon updates hidden matrices (plan::is_hidden_matrix), and AdamW all other parameters. What both read is here; the
// members of the same names in `matrices` and `others` are not used.
struct MuonRule {
  float learning_rate = 0, gradient_scale = 1;
  const kernels::StepNumbers* numbers = nullptr;
  kernels::Muon matrices;
  kernels::AdamW others;
  kernels::Muon of_matrices() const { return with_step(matrices); }
  kernels::AdamW of_others() const { return with_step(others); }

 private:
  template <class Kernel> Kernel with_step(Kernel kernel) const {
    kernel.learning_rate = learning_rate, kernel.gradient_scale = gradient_scale, kernel.numbers = numbers;
    return kernel;
  }
};

using UpdateRule = std::variant<kernels::AdamW, kernels::Lion, kernels::Sgd, MuonRule>;

// What step `step` (the first is 1) does. `optimizer` is the name of a plan::OptimizerKind; std::logic_error for one
// that has no kernel here. `numbers`: in the device memory of the Exec, or null (kernels/step_numbers).
UpdateRule update_rule(const std::string& optimizer, const OptimizerSettings& settings, double learning_rate,
                       std::int64_t step, const kernels::StepNumbers* numbers);

const kernels::StepNumbers* numbers_of(const UpdateRule& rule);

// A range of a flat group. All views have the same elements: `parameter`, `gradient` and `states`, in the order of
// plan::OptimizerKind::states, are f32. `working` is the rounded copy of a narrow working dtype, else empty.
struct UpdatedRange {
  base::ConstView gradient;
  base::View parameter;
  std::span<const base::View> states;
  base::View working;
  // Of hidden matrices, with an optimizer that needs them whole: `gradient` is the update (params/matrix_updates.h).
  bool of_matrices = false;
};
// Weight decay applies to the elements in `decayed`. std::logic_error if the rule has another number of states.
void apply(tensor::Exec& exec, const UpdateRule& rule, const UpdatedRange& range,
           std::span<const kernels::Range> decayed);

}  // namespace trainyard::params

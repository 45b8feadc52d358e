// OptimizerKind: the description of an optimizer, stated once: its states, its settings, and what an update costs. The
// planner, the stores, the checkpoints and the identity of a run read it.
#pragma once

#include "libtrain/base/dtype.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// A state that an optimizer keeps of every parameter. A new parameter has a state of zeros.
struct OptimizerState {
  // The elements of a state: those of its parameter; one for each index of the first dim (rows); or one for each index
  // of all other dims together (columns), which is 1 for a parameter with one dim.
  enum class Shape { parameter, rows, columns };
  std::string name;  // checkpoints have its tensors in /optimizer/NAME
  base::DType dtype = base::DType::f32;
  Shape shape = Shape::parameter;
};

// The dims of a state of a parameter with these dims.
std::vector<std::int64_t> dims_of_state(OptimizerState::Shape shape, const std::vector<std::int64_t>& parameter);

// Master weights are no state of an optimizer: they belong to a narrow working dtype (plan/cost/states.h).
struct OptimizerKind {
  std::string name;                    // the value of --optimizer
  std::vector<OptimizerState> states;  // in the order of arenas, files and tables
  // The settings of a run that the update reads, beside the learning rate. A setting that only other optimizers name is
  // refused, and is no part of the run's identity.
  std::vector<std::string> settings;
  // What the ranks of a flat group compute together before an update, beside the norm of all gradients.
  // parameter_norms: the norm of each whole parameter and of its update (plan/cost/parameter_norms.h).
  // whole_matrices: the updates of hidden matrices, each as a whole (plan/cost/matrix_updates.h).
  // factored_moments: sums over each row and column of a parameter (plan/cost/factored_moments.h), and then norms as
  // above. States of rows and columns need it.
  enum class Collective { none, parameter_norms, whole_matrices, factored_moments } collective = Collective::none;
  double flops = 0;  // f32 operations of an update, for each element
  // Whether its last state of elements is a moving average of the weights, whatever the optimizer does
  // (kernels/update/average.h). Only optimizer_kind makes such kinds.
  bool averages = false;

  std::int64_t state_bytes() const;    // for each element of a parameter, without states of rows and columns
  base::DType state_dtype() const;     // of all states; f32 without any
  std::size_t element_states() const;  // how many have the shape of their parameter; these are the first of `states`
  std::size_t rule_states() const { return element_states() - (averages ? 1 : 0); }  // those that the update itself has
  bool has_factored_states() const { return element_states() < states.size(); }
  bool has_parameter_norms() const {
    return collective == Collective::parameter_norms || collective == Collective::factored_moments;
  }
  // Bytes that an update reads and writes for each element of f32 weights: weight, gradient and states are read, weight
  // and states are written. Norms of parameters take two more passes: weight and states are read in each. Sums of rows
  // and of columns take a pass each over the gradient, and norms another one over gradient and weight. A moving average
  // reads the weight once more.
  std::int64_t update_bytes() const;
  bool reads(const std::string& setting) const;
};

inline constexpr const char* default_optimizer = "adamw";
// A moving average x = decay * x + (1 - decay) * y in bf16 never falls where (1 - decay) x is below half the distance
// of neighbouring numbers, which is up to 2^-8 x.
inline constexpr double most_decay_of_bf16_states = 1 - 1.0 / 256;

// The kinds by name. The library has "adamw" and those that optimizer_names lists. A later registration replaces an
// earlier one of the same name. UsageError for a name, or a name of a state, that is empty, has other characters than
// letters, digits and '_', or comes twice. std::logic_error for a state that is described in another dtype than f32:
// that is not built. Not thread-safe: register before anything is planned.
void register_optimizer(const OptimizerKind& kind);
// UsageError that names the nearest known kind. `states`: f32, or bf16 for states that are rounded to it after every
// update. With an average the states are f32, and average_state is one of them.
const OptimizerKind& optimizer_kind(const std::string& name, base::DType states = base::DType::f32,
                                    bool averages = false);
inline constexpr const char* average_state = "ema";
std::vector<std::string> optimizer_names();  // sorted
// Does any optimizer read this setting? Others belong to every run.
bool is_of_an_optimizer(const std::string& setting);
// Whether text can name a state: what register_optimizer and readers of checkpoints accept.
bool is_state_name(const std::string& name);

}  // namespace trainyard::plan

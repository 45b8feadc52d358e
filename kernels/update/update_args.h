// Arguments of an element-wise update as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"
#include "kernels/update/remainder_args.h"
#include "kernels/update/rules.h"

#include <cstdint>
#include <iterator>

namespace trainyard::kernels {

template <class Rule> struct UpdateArgs {
  static constexpr int states_of_rule = static_cast<int>(std::size(Rule::states));
  static_assert(states_of_rule <= most_states);
  static constexpr bool writes_states = Rule::writes != UpdateWrites::parameter;
  static constexpr bool writes_parameter = Rule::writes != UpdateWrites::states;
  static constexpr bool scales_gradient = Rule::scales_gradient;

  Mat parameter;
  ConstMat gradient;
  Mat states[places_of_states<states_of_rule>], working;
  typename Rule::Sequence sequence = {};
  float learning_rate = 0, weight_decay = 0, scale = 1;
  int threads = 1;
  int ranges = 0;  // GPU: weight_decay applies to elements [first, end) of each; the CPU gets a call for each range
  std::int64_t first[16] = {}, end[16] = {};
  const StepNumbers* numbers = nullptr;  // GPU: gives the scale; nothing changes if its `finite` is 0
  const float* rate_factor = nullptr;    // GPU: the learning rate is multiplied by it
  RemainderPart remainder;               // where there is one, there is no `parameter`
};

#define TRAINYARD_UPDATE_CPU(name, Args) TRAINYARD_CPU_KERNEL(void, name##_cpu, (const Args& args))
TRAINYARD_UPDATE_RULES(TRAINYARD_UPDATE_CPU)
#undef TRAINYARD_UPDATE_CPU

}  // namespace trainyard::kernels

// What every rule of an element-wise update shares: the numbers of a step, and an element as a rule sees it.
#pragma once

#include "kernels/step_numbers/step_numbers_args.h"

// Marks the sequence of a rule. nvcc compiles it for the device alone; other compilers inline it into each of the
// compiled variants of the CPU.
#ifdef __CUDACC__
#define TRAINYARD_SEQUENCE __device__ __forceinline__
#else
#define TRAINYARD_SEQUENCE [[gnu::always_inline]] inline
#endif

namespace trainyard::kernels {

enum class UpdateWrites { all, states, parameter };  // parameter: with its working copy

// The settings of a step that no rule lacks. A rule, such as kernels/update/lion.h, adds its own.
struct UpdateStep {
  float learning_rate = 0, weight_decay = 0;
  float gradient_scale = 1;
  const StepNumbers* numbers =
      nullptr;  // in the Exec's device memory, or null; gives the scale; nothing changes if its `finite` is 0
  const float* rate_factor = nullptr;  // in that memory, or null: the learning rate is multiplied by it, rounded once

  // What a rule writes. A rule of one pass of several says so by a member of this name.
  static constexpr UpdateWrites writes = UpdateWrites::all;
  // Whether the gradient is multiplied by the scale. A rule whose gradient has its size already says false.
  static constexpr bool scales_gradient = true;
};

// At most this many states belong to an element. A rule without any has an array with one place, which nothing uses,
// because no array has none.
inline constexpr int most_states = 3;
template <int count> inline constexpr int places_of_states = count > 0 ? count : 1;

// One element before and after the sequence of a rule. F is f32 whose operations are each rounded on their own, on
// every device: + - * /, root() and comparisons; f32 converts to it.
template <class F, int count> struct UpdatedElement {
  F gradient;  // times the scale, if the rule scales it
  F parameter, states[places_of_states<count>];
  F rate;   // the learning rate
  F decay;  // weight decay, or 0 where none applies
};

}  // namespace trainyard::kernels

// What a run does with a step whose loss or gradient norm is not finite.
#pragma once

namespace trainyard::engine {

// stop: the run ends, and a diagnosis names the first tensor that is not finite. skip: the run goes on.
enum class NonFinitePolicy { stop, skip };

// What becomes of a step that is done. A step that does not count has changed no weight and no state of the optimizer.
enum class StepFate { counts, skipped, ends_run };

// `finite` is equal on all ranks (kernels::StepNumbers), so ranks with the same policy decide alike.
constexpr StepFate fate_of(bool finite, NonFinitePolicy policy) {
  if (finite) return StepFate::counts;
  return policy == NonFinitePolicy::skip ? StepFate::skipped : StepFate::ends_run;
}

}  // namespace trainyard::engine

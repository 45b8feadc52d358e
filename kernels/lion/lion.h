// Lion (Chen et al. 2023, algorithm 2) in one pass: a written sequence of correctly rounded f32 operations.
#pragma once

#include "kernels/decayed_ranges.h"
#include "kernels/step_numbers/step_numbers_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <optional>
#include <span>

namespace trainyard::kernels {

struct Lion {
  float learning_rate = 0, beta1 = 0.9f, beta2 = 0.99f, weight_decay = 0;
  float gradient_scale = 1;
  const StepNumbers* numbers =
      nullptr;  // in the Exec's device memory, or null; gives the scale; nothing changes if its `finite` is 0
};

// Each element goes through these lines in this order. Each operation is rounded on its own.
// s1 = float(1 - beta1), s2 = float(1 - beta2):
//   g = gradient * gradient_scale
//   c = beta1 * m + s1 * g             (two products, one sum)
//   u = sign(c) + weight_decay * p     (sign is 1 or -1; 0 and NaN stay)
//   m = beta2 * m + s2 * g
//   p = p - learning_rate * u
//   working = p rounded to its dtype, where given
// All views are dense and of the same count. One pass (one launch on a GPU) updates several parameters that are stored
// back to back.
struct LionUpdate {
  Lion hyper;
  base::ConstView gradient;  // f32
  base::View parameter;      // f32
  base::View m;              // f32
  base::View working = {};   // bf16 or f16
  // Weight decay applies to these elements, at most most_decayed_ranges; for all others weight_decay is 0. Absent: it
  // applies to all.
  std::optional<std::span<const Range>> decayed = {};
};
void lion_update(tensor::Exec& exec, const LionUpdate& update);

}  // namespace trainyard::kernels

// AdamW (Loshchilov and Hutter 2019, algorithm 2) and Adam (Kingma and Ba 2015, algorithm 1) in one pass: a written
// sequence of correctly rounded f32 operations.
#pragma once

#include "kernels/decayed_ranges.h"
#include "kernels/step_numbers/step_numbers_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <optional>
#include <span>

namespace trainyard::kernels {

struct AdamW {
  float learning_rate = 0, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, weight_decay = 0;
  double bias1 = 1, bias2 = 1;     // 1 - beta^t, computed on the host in double
  bool decay_in_gradient = false;  // Adam: weight decay belongs to the gradient, as L2 regularisation
  float gradient_scale = 1;
  const StepNumbers* numbers =
      nullptr;  // in the Exec's device memory, or null; gives the scale; nothing changes if its `finite` is 0
};

// Each element goes through these lines in this order. Each operation is rounded on its own.
// s1 = float(1 - beta1), s2 = float(1 - beta2), c1 = float(1 / bias1), c2 = float(1 / bias2):
//   g = gradient * gradient_scale      (Adam: + weight_decay * p; two products, one sum)
//   m = beta1 * m + s1 * g             (two products, one sum)
//   v = beta2 * v + s2 * (g * g)
//   d = sqrt(v * c2) + epsilon
//   u = (m * c1) / d + weight_decay * p   (Adam: without the decay)
//   p = p - learning_rate * u
//   working = p rounded to its dtype, where given
// All views are dense and of the same count. One pass (one launch on a GPU) updates several parameters that are stored
// back to back.
struct AdamWUpdate {
  AdamW hyper;
  base::ConstView gradient;  // f32
  base::View parameter;      // f32
  base::View m, v;           // f32
  base::View working = {};   // bf16 or f16
  // Weight decay applies to these elements, at most most_decayed_ranges; for all others weight_decay is 0. Absent: it
  // applies to all.
  std::optional<std::span<const Range>> decayed = {};
};
void adamw_update(tensor::Exec& exec, const AdamWUpdate& update);

}  // namespace trainyard::kernels

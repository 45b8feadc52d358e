// SGD with momentum (Sutskever et al. 2013, in the form of PyTorch's torch.optim.SGD) in one pass: a written sequence
// of correctly rounded f32 operations.
#pragma once

#include "kernels/decayed_ranges.h"
#include "kernels/step_numbers/step_numbers_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <optional>
#include <span>

namespace trainyard::kernels {

struct Sgd {
  float learning_rate = 0, momentum = 0.9f, weight_decay = 0;
  bool nesterov = false;
  float gradient_scale = 1;
  const StepNumbers* numbers =
      nullptr;  // in the Exec's device memory, or null; gives the scale; nothing changes if its `finite` is 0
};

// Each element goes through these lines in this order. Each operation is rounded on its own.
//   g = gradient * gradient_scale + weight_decay * p   (two products, one sum)
//   b = momentum * b + g
//   u = b, or with nesterov g + momentum * b
//   p = p - learning_rate * u
//   working = p rounded to its dtype, where given
// So the first step, with a buffer b of zeros, makes the buffer the gradient. Dampening is 0. All views are dense and
// of the same count. One pass (one launch on a GPU) updates several parameters that are stored back to back.
struct SgdUpdate {
  Sgd hyper;
  base::ConstView gradient;  // f32
  base::View parameter;      // f32
  base::View buffer;         // f32
  base::View working = {};   // bf16 or f16
  // Weight decay applies to these elements, at most most_decayed_ranges; for all others weight_decay is 0. Absent: it
  // applies to all.
  std::optional<std::span<const Range>> decayed = {};
};
void sgd_update(tensor::Exec& exec, const SgdUpdate& update);

}  // namespace trainyard::kernels

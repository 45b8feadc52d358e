// SGD with momentum (Sutskever et al. 2013, in the form of PyTorch's torch.optim.SGD) in one pass: a written sequence
// of correctly rounded f32 operations.
#pragma once

#include "kernels/decayed_ranges.h"
#include "kernels/step_numbers/step_numbers_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

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
// So the first step, with a buffer b of zeros, makes the buffer the gradient. Dampening is 0. All views are f32, dense
// and of the same count, except `working`, which is bf16, f16 or empty. `gradient` is not changed. Weight decay applies
// to the elements in `decayed`, at most most_decayed_ranges; for all others weight_decay is 0.
void sgd_update(tensor::Exec& exec, const Sgd& hyper, base::View parameter, base::View gradient, base::View buffer,
                base::View working, std::span<const Range> decayed);

}  // namespace trainyard::kernels

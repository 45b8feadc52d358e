// Arguments of the activations as plain data, for the compiled variants.
#pragma once

#include "kernels/activation/activation_form.h"
#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// With `up` the activation is a gate. With `dy` it is the backward pass.
struct ActivationArgs {
  Activation form;
  ConstMat x;
  ConstMat up = {}, dy = {};
  Mat y;  // the result, or the gradient of x
  Mat dup = {};
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, activation_cpu, (const ActivationArgs& args))

}  // namespace trainyard::kernels

// Arguments of the activations as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

enum class ActivationKernel : int {
  gelu_forward,
  gelu_backward,
  gelu_erf_forward,
  gelu_erf_backward,
  swiglu_forward,
  swiglu_backward
};
struct ActivationArgs {
  ActivationKernel kernel;
  ConstMat x;
  ConstMat up = {}, dy = {};
  Mat y;  // the result, or the gradient of x
  Mat dup = {};
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, activation_cpu, (const ActivationArgs& args))

}  // namespace trainyard::kernels

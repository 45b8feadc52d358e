// Arguments of the norms as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/dropout/dropout_args.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// For RMS norm, bias and mean are empty.
struct NormForwardArgs {
  ConstMat x, weight, bias;
  double epsilon = 1e-5;
  Mat y, mean, rstd;
  DropoutArgs sum = {};  // GPU: if its x is given, the kernel first writes sum.y = residual + dropout(x), which is a.x
  int threads = 1;
  double offset = -0.0;  // added to the weight; -0.0 changes no bit of it
};
// For RMS norm, mean is empty.
struct NormBackwardArgs {
  ConstMat dy, x, weight, mean, rstd;
  Mat dx;
  Mat partials;  // [2 * blocks, h]
  int add = 0;
  int threads = 1;
  double offset = -0.0;  // as in forward
};
// For RMS norm, dbias is empty.
struct NormPartialSumArgs {
  ConstMat partials;  // [ranks * 2 * blocks, h]
  std::int64_t ranks = 1;
  Mat dweight, dbias;
};

TRAINYARD_CPU_KERNEL(void, norm_forward_cpu, (const NormForwardArgs& args))
TRAINYARD_CPU_KERNEL(void, norm_backward_cpu, (const NormBackwardArgs& args))
TRAINYARD_CPU_KERNEL(void, norm_partial_sum_cpu, (const NormPartialSumArgs& args))

}  // namespace trainyard::kernels

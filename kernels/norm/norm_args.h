// Arguments of the norms as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/dropout/dropout_args.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// For RMS norm, bias and mean are empty.
struct NormArgs {
  Mat x, weight, bias, y, mean, rstd;
  double epsilon = 1e-5;
  Mat dy, dx, partials;  // partials: [2 * blocks, h]
  int add = 0;
  int threads = 1;
  DropoutArgs sum = {};  // GPU forward: if its x is given, a.x is first filled with residual + dropout(x)
};
// For RMS norm, dbias is empty.
struct NormPartialSumArgs {
  Mat partials;  // [ranks * 2 * blocks, h]
  std::int64_t ranks = 1;
  Mat dweight, dbias;
};
TRAINYARD_CPU_KERNEL(void, norm_forward_cpu, (const NormArgs& args))
TRAINYARD_CPU_KERNEL(void, norm_backward_cpu, (const NormArgs& args))
TRAINYARD_CPU_KERNEL(void, norm_partial_sum_cpu, (const NormPartialSumArgs& args))

}  // namespace trainyard::kernels

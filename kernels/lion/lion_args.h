// Arguments of Lion as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"
#include "kernels/step_numbers/step_numbers_args.h"

namespace trainyard::kernels {

struct LionArgs {
  Mat parameter;
  ConstMat gradient;
  Mat m, working;
  float learning_rate, beta1, beta2, rest1, rest2, weight_decay, scale;
  int threads = 1;
  int ranges = 0;  // GPU: weight_decay applies to elements [first, end) of each; the CPU gets a call for each range
  std::int64_t first[16] = {}, end[16] = {};
  const StepNumbers* numbers = nullptr;  // GPU: gives the scale; nothing changes if its `finite` is 0
};
TRAINYARD_CPU_KERNEL(void, lion_cpu, (const LionArgs& args))

}  // namespace trainyard::kernels

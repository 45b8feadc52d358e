// AdamW as the compiled variants see it.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"
#include "kernels/step_numbers/step_numbers_args.h"

namespace trainyard::kernels {

struct AdamWArgs {
  Mat parameter, gradient, m, v, working;
  float learning_rate, beta1, beta2, rest1, rest2, correction1, correction2, epsilon, weight_decay, scale;
  int threads = 1;
  int ranges = 0;  // on a GPU: weight_decay applies to elements [first, end) of each; the CPU is called range by range
  std::int64_t first[16] = {}, end[16] = {};
  const StepNumbers* numbers = nullptr;  // on a GPU: gives the scale, and nothing changes where it is not finite
};
TRAINYARD_CPU_KERNEL(void, adamw_cpu, (const AdamWArgs& args))

}  // namespace trainyard::kernels

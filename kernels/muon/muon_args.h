// Arguments of Muon's element-wise parts as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"
#include "kernels/step_numbers/step_numbers_args.h"

namespace trainyard::kernels {

// Momentum has `gradient` and `m`, the step has `update`, `parameter` and perhaps `working`.
struct MuonArgs {
  Mat gradient, m;
  ConstMat update;
  Mat parameter, working;
  float learning_rate, momentum, weight_decay, scale;
  bool nesterov = false;
  int threads = 1;
  int ranges = 0;  // GPU: weight_decay applies to elements [first, end) of each; the CPU gets a call for each range
  std::int64_t first[16] = {}, end[16] = {};
  const StepNumbers* numbers = nullptr;  // GPU: gives the scale; nothing changes if its `finite` is 0
};
TRAINYARD_CPU_KERNEL(void, muon_cpu, (const MuonArgs& args))

}  // namespace trainyard::kernels

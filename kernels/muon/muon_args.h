// Arguments of Muon's momentum as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"
#include "kernels/step_numbers/step_numbers_args.h"

namespace trainyard::kernels {

struct MuonDirectionArgs {
  Mat gradient, m;
  float momentum, scale;
  bool nesterov = false;
  int threads = 1;
  const StepNumbers* numbers = nullptr;  // GPU: gives the scale; nothing changes if its `finite` is 0
};
TRAINYARD_CPU_KERNEL(void, muon_direction_cpu, (const MuonDirectionArgs& args))

}  // namespace trainyard::kernels

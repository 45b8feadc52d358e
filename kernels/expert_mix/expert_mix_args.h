// Arguments of the mix as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct ExpertMixArgs {
  ConstMat logits, a, b;
  Mat out = {};                         // forward
  ConstMat dout = {};                   // backward: not empty
  Mat d_logits = {}, da = {}, db = {};  // backward
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, expert_mix_cpu, (const ExpertMixArgs& args))

}  // namespace trainyard::kernels

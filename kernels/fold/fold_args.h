// The fold as the compiled variants see it.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct FoldArgs {
  Mat pieces, sum;
  const void* const* rows = nullptr;  // CPU: where each piece lies; null: as `pieces` says
  int next = 0;                       // 1: goes on from sum
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, fold_cpu, (const FoldArgs& args))

}  // namespace trainyard::kernels

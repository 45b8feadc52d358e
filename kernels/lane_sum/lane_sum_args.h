// Arguments of the sum of lanes as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct LaneSumArgs {
  ConstMat pieces;
  ConstMat bias;  // one row, may be empty
  Mat out;
  std::int64_t first = 0;  // the bias column of out's first element, in [0, bias.cols)
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, lane_sum_cpu, (const LaneSumArgs& args))

}  // namespace trainyard::kernels

// The sum of lanes as the compiled variants see it.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct LaneSumArgs {
  Mat pieces, bias, out;   // bias: one row, may be empty
  std::int64_t first = 0;  // of out's elements, in [0, bias.cols)
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, lane_sum_cpu, (const LaneSumArgs& args))

}  // namespace trainyard::kernels

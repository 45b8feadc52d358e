// The exact sum of squares as a GPU module sees it.
#pragma once

#include "kernels/square_sum/square_sum_args.h"

namespace trainyard::kernels {

struct SquareSumGpuArgs {
  const float* x = nullptr;
  std::int64_t n = 0;              // at most 2^30
  std::int64_t* limbs = nullptr;   // square_sum_limbs of device memory, overwritten; digits are not carried
};

}  // namespace trainyard::kernels

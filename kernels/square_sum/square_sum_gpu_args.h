// The exact sum of squares as a GPU module sees it.
#pragma once

#include "kernels/square_sum/fixed_point.h"

namespace trainyard::kernels {

struct SquareSumGpuArgs {
  const float* x = nullptr;
  std::int64_t n = 0;             // at most 2^30
  std::int64_t* limbs = nullptr;  // square_sum_limbs of device memory, overwritten; digits are not carried
};

// The sum of `rows` rows of such digits (fewer than 2^30), carried.
struct SquareSumTotalArgs {
  const std::int64_t* limbs = nullptr;
  std::int64_t rows = 0;
  std::int64_t* total = nullptr;
};

}  // namespace trainyard::kernels

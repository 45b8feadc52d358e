// Arguments of the exact sum of squares, as plain data for the GPU module.
#pragma once

#include "kernels/square_sum/fixed_point.h"

namespace trainyard::kernels {

struct SquareSumGpuArgs {
  const float* x = nullptr;
  std::int64_t n = 0;             // at most 2^30
  std::int64_t* limbs = nullptr;  // square_sum_limbs numbers in device memory, overwritten; digits are not carried
};

// Adds `rows` rows of such digits (fewer than 2^30 rows) and carries.
struct SquareSumTotalArgs {
  const std::int64_t* limbs = nullptr;
  std::int64_t rows = 0;
  std::int64_t* total = nullptr;
};

}  // namespace trainyard::kernels

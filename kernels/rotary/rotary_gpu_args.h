// Rotary positions as a GPU module sees them: angles are made where they are used.
#pragma once

#include "kernels/mat.h"

namespace trainyard::kernels {

struct RotaryGpuArgs {
  Mat x;
  const std::int32_t* positions = nullptr;  // per row
  std::int64_t heads = 1, head_dim = 2;
  double base = 10000, direction = 1;
};

}  // namespace trainyard::kernels

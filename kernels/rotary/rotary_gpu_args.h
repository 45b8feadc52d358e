// Arguments of the rotation as plain data, for the GPU module, which computes angles where it uses them.
#pragma once

#include "kernels/mat.h"
#include "kernels/rotary/rotary_frequencies.h"

namespace trainyard::kernels {

struct RotaryGpuArgs {
  Mat x;
  const std::int32_t* positions = nullptr;  // one for each row
  std::int64_t heads = 1, head_dim = 2;
  RotaryFrequencies frequencies = {};
  double direction = 1;
};

}  // namespace trainyard::kernels

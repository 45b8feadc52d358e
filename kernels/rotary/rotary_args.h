// Arguments of the rotation as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct RotaryArgs {
  Mat x;
  const double* table = nullptr;                    // for each row: width / 2 cosines, then width / 2 sines
  std::int64_t heads = 1, head_dim = 2, width = 2;  // width: the channels of a head that rotate
  double direction = 1;                             // -1: the inverse rotation
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, rotary_cpu, (const RotaryArgs& args))

}  // namespace trainyard::kernels

// Arguments of element-wise copies as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

enum class Elementwise : int { cast, fill, scale, add, round_to_bf16 };
struct CastArgs {
  ConstMat from = {};
  Mat to;
  Elementwise what = Elementwise::cast;
  double value = 0;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, cast_cpu, (const CastArgs& args))

}  // namespace trainyard::kernels

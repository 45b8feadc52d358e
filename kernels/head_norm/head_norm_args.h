// Arguments of the norms of queries and keys as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct HeadNormSumsArgs {
  ConstMat x, dy, weight;
  double offset = 0;
  Mat out;
  int threads = 1;
};
struct HeadNormForwardArgs {
  ConstMat x, weight, squares;
  double width = 1, epsilon = 1e-5, offset = 0;
  Mat y;
  int threads = 1;
};
struct HeadNormBackwardArgs {
  ConstMat dy, x, weight, squares, dots;
  double width = 1, epsilon = 1e-5, offset = 0;
  Mat dx;
  Mat partials;  // [slices * blocks, w]
  Mat dweight;   // [slices, w]
  int threads = 1;
};

TRAINYARD_CPU_KERNEL(void, head_norm_sums_cpu, (const HeadNormSumsArgs& args))
TRAINYARD_CPU_KERNEL(void, head_norm_forward_cpu, (const HeadNormForwardArgs& args))
TRAINYARD_CPU_KERNEL(void, head_norm_backward_cpu, (const HeadNormBackwardArgs& args))

}  // namespace trainyard::kernels

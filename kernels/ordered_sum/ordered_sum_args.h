// Arguments of the ordered reduction as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct OrderedSumArgs {
  ConstMat pieces;
  Mat sum;
  const void* const* rows = nullptr;  // CPU: the address of each piece; null: the rows of `pieces`
  int next = 0;                       // 1: continue from the present sum
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, ordered_sum_cpu, (const OrderedSumArgs& args))

}  // namespace trainyard::kernels

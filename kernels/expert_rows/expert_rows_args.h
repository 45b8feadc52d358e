// Arguments of the rows of experts as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

#include <cstdint>

namespace trainyard::kernels {

struct ExpertDispatchArgs {
  ConstMat x;
  const std::int32_t* sources = nullptr;  // one for each row of y
  std::int64_t top_k = 1;
  Mat y;
  int threads = 1;
};

// out[s] = add[s] + the sum of weights[s, j] * y[rows[s, j]] over the choices that have a row. `add` may be empty.
// Empty weights count as 1.
struct ExpertSumArgs {
  ConstMat y;
  ConstMat rows;  // i32 [S, k]; its type does not matter
  ConstMat weights, add;
  Mat out;
  int threads = 1;
};

struct ExpertCombineBackwardArgs {
  ConstMat dout, y;
  ConstMat rows;  // as above
  const std::int32_t* sources = nullptr;
  ConstMat weights;
  Mat dy, d_weights;
  int threads = 1;
};

TRAINYARD_CPU_KERNEL(void, expert_dispatch_cpu, (const ExpertDispatchArgs& args))
TRAINYARD_CPU_KERNEL(void, expert_sum_cpu, (const ExpertSumArgs& args))
TRAINYARD_CPU_KERNEL(void, expert_combine_backward_cpu, (const ExpertCombineBackwardArgs& args))

}  // namespace trainyard::kernels

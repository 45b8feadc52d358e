// Arguments of the column sums as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// partials: [blocks of plan::column_sum_rows rows, columns], in the dtype of `sums`.
struct ColumnSumArgs {
  ConstMat x;
  Mat sums, partials;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, column_sum_cpu, (const ColumnSumArgs& args))

}  // namespace trainyard::kernels

// Column sums as the compiled variants see them.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// partials: [blocks of plan::column_sum_rows rows, columns], in the type of sums.
struct ColumnSumArgs {
  Mat x, sums, partials;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, column_sum_cpu, (const ColumnSumArgs& args))

}  // namespace trainyard::kernels

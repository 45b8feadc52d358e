// Arguments of relative positions as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct PositionsArgs {
  const std::int32_t* borders = nullptr;
  std::int64_t side = 0;  // buckets of one direction, one for each border
  bool bidirectional = false;
  std::int64_t queries = 1, keys = 1;
  int threads = 1;
};
struct ExpandPositionsArgs : PositionsArgs {
  ConstMat table;
  Mat bias;
};
struct FoldPositionsArgs : PositionsArgs {
  ConstMat d_bias;
  Mat d_table;
  bool add = false;
};
TRAINYARD_CPU_KERNEL(void, relative_positions_expand_cpu, (const ExpandPositionsArgs& args))
TRAINYARD_CPU_KERNEL(void, relative_positions_fold_cpu, (const FoldPositionsArgs& args))

}  // namespace trainyard::kernels

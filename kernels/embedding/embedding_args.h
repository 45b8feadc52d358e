// Arguments of the embedding as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// rows = scale * table[tokens - first_row] [+ position_table[positions]]. A token whose row this rank does not hold
// gives zero bits. Without tokens, positions are added to `rows` itself.
struct EmbeddingArgs {
  const std::int32_t* tokens = nullptr;
  const std::int32_t* positions = nullptr;
  ConstMat table = {}, position_table = {};
  std::int64_t first_row = 0;
  Mat rows;
  int threads = 1;
  double scale = 1;  // a value of the working dtype
};
// table = the sums of `rows` for each token, times the scale.
struct EmbeddingBackwardArgs {
  const std::int32_t* tokens = nullptr;
  std::int64_t first_row = 0;
  ConstMat rows;
  Mat table;
  int threads = 1;
  double scale = 1;
};
TRAINYARD_CPU_KERNEL(void, embedding_forward_cpu, (const EmbeddingArgs& args))
TRAINYARD_CPU_KERNEL(void, embedding_backward_cpu, (const EmbeddingBackwardArgs& args))

}  // namespace trainyard::kernels

// The embedding as the compiled variants see it.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// forward: rows = table[tokens - first_row] [+ position_table[positions]]; a token without a row here is zero bits, and
// without tokens `rows` itself is what positions are added to. backward: table = sums of rows by token.
struct EmbeddingArgs {
  const std::int32_t* tokens = nullptr;
  const std::int32_t* positions = nullptr;
  Mat table, position_table, rows;
  std::int64_t first_row = 0;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, embedding_forward_cpu, (const EmbeddingArgs& args))
TRAINYARD_CPU_KERNEL(void, embedding_backward_cpu, (const EmbeddingArgs& args))

}  // namespace trainyard::kernels

// The embedding as the compiled variants see it.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct EmbeddingArgs {
  const std::int32_t* tokens = nullptr;
  const std::int32_t* positions = nullptr;
  Mat table, position_table, rows;  // rows: out in forward, dout in backward
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, embedding_forward_cpu, (const EmbeddingArgs& args))
TRAINYARD_CPU_KERNEL(void, embedding_backward_cpu, (const EmbeddingArgs& args))

}  // namespace trainyard::kernels

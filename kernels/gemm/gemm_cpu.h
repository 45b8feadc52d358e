// The product as the compiled variants see it, with the epilogues that a linear layer fuses.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct GemmArgs {
  Mat a, b, c;
  int trans_a = 0, trans_b = 0;   // 1: transposed
  std::int64_t m = 0, n = 0, k = 0;
  int accumulate = 0;
  Mat bias;                       // [n], added to every row; may be empty
  Mat gelu;                       // [m, n]: gets gelu_tanh(c); may be empty
  int threads = 1;
  void* scratch = nullptr;
};

TRAINYARD_CPU_KERNEL(void, gemm_cpu, (const GemmArgs& args))

}  // namespace trainyard::kernels

// Cross entropy as the compiled variants see it.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

struct CrossEntropyArgs {
  Mat logits, dlogits;
  std::int64_t vocabulary = 0;
  const std::int32_t* targets = nullptr;
  const std::uint8_t* weights = nullptr;
  double* losses = nullptr;
  int threads = 1;
};
struct SumLossesArgs {
  const double* losses = nullptr;
  std::int64_t n = 0;
  double* out = nullptr;
};
TRAINYARD_CPU_KERNEL(void, cross_entropy_cpu, (const CrossEntropyArgs& args))

}  // namespace trainyard::kernels

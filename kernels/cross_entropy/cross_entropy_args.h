// Cross entropy as the compiled variants see it.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// Which steps of kernels/cross_entropy/cross_entropy.h.
enum class CrossEntropyStep : int { statistics, finish, both };

struct CrossEntropyArgs {
  CrossEntropyStep step = CrossEntropyStep::both;
  Mat logits, dlogits;
  Mat statistics;  // [3 * pieces, c]: written by the first step, read by the second; empty where both are done
  std::int64_t first_column = 0, columns = 0;  // those of `logits` that count
  std::int64_t lanes = 1;
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

// Arguments of cross entropy as plain data, for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"

namespace trainyard::kernels {

// The steps of kernels/cross_entropy/cross_entropy.h: the first, the second, or both; cap: cap_logits, to `dlogits`.
enum class CrossEntropyStep : int { statistics, finish, both, cap };

struct CrossEntropyArgs {
  CrossEntropyStep step = CrossEntropyStep::both;
  ConstMat logits;
  const std::int32_t* targets = nullptr;
  const std::uint8_t* weights = nullptr;
  ConstMat all_statistics;                     // [numbers * pieces, c] of all ranks, for the second step
  std::int64_t first_column = 0, columns = 0;  // columns of `logits` that count
  std::int64_t lanes = 1;
  Mat statistics;  // [numbers * pieces, c] of this rank, by the first step; may be empty for both
  double* losses = nullptr;
  Mat dlogits;
  double loss_scale = 1;
  int threads = 1;
  double softcap = 0;
  // Label smoothing: the share of the target, above that of each column. Without it the statistics need no sums.
  bool smooth = false;
  std::int64_t numbers = 3;  // of a piece of statistics, for each token; 4 if `smooth`
  double target_share = 1, column_share = 0;
};
struct SumLossesArgs {
  const double* losses = nullptr;
  std::int64_t n = 0;
  double* out = nullptr;
};
TRAINYARD_CPU_KERNEL(void, cross_entropy_cpu, (const CrossEntropyArgs& args))

}  // namespace trainyard::kernels

// Arguments of the trust ratio as plain data, and the ratio of one parameter: the same on the host and on a GPU.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"
#include "kernels/square_sum/fixed_point.h"
#include "kernels/update/lamb.h"

#include <cstdint>

namespace trainyard::kernels {

struct UpdateSquaresArgs {
  ConstMat parameter;  // f32
  ConstMat m, v;       // both f32 or both bf16
  std::int64_t n = 0;  // at most 2^30
  LambSequence sequence = {};
  float weight_decay = 0;
  std::int64_t* squares = nullptr;  // the digits of both sums; they are added to, and not carried
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, update_squares_cpu, (const UpdateSquaresArgs& args))

// Exact sums, one after the other.
struct CarrySquaresArgs {
  std::int64_t* squares = nullptr;
  std::int64_t sums = 0;
};
// Rows of the digits of both sums.
struct TrustRatiosArgs {
  const std::int64_t* squares = nullptr;
  std::int64_t rows = 0;
  float* ratios = nullptr;
};

TRAINYARD_ANYWHERE inline float trust_ratio(const std::int64_t* squares) {
  const double parameter = value_of_digits(squares), update = value_of_digits(squares + square_sum_limbs);
  if (!(parameter > 0 && update > 0)) return 1;
  const double ratio = sqrt(parameter) / sqrt(update);
  return ratio < 3.4e38 ? static_cast<float>(ratio) : 1.0f;
}

}  // namespace trainyard::kernels

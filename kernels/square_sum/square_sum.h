// The exact sum of squares: it depends neither on order nor on how elements are divided among ranks (decision 6).
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <array>
#include <cstdint>
#include <span>

namespace trainyard::kernels {

// A fixed-point number in carry-save digits: value = sum over i of limbs[i] * 2^(32 i - 320). The square of an f32 is
// exact in double, at least 2^-298 and below 2^256. So 20 digits hold any sum of 2^60 squares. The last limb counts
// values that are not finite. The sum of several ranks' limbs (all_reduce as i64) is the limbs of the sum. square_sum
// leaves every digit below 2^32, so 2^20 ranks cannot overflow, whatever their values.
struct FixedPointSum {
  std::array<std::int64_t, 21> limbs{};
};

// Overwrites `limbs`, i64 [21] on the Exec's device, with the sum over all xs (f32, dense), in the order of the Exec.
// The span must live until that is done. Scratch on a GPU: 168 bytes for every started 2^30 elements of each x.
void square_sum(tensor::Exec& exec, std::span<const base::ConstView> xs, base::View limbs);
void square_sum(tensor::Exec& exec, base::ConstView x, FixedPointSum& add_into);  // of one view; waits for the Exec
double value(const FixedPointSum& sum);  // within one ulp; NaN if anything was not finite

}  // namespace trainyard::kernels

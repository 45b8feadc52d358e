// The trust ratio of LAMB: the norm of a parameter over the norm of its update, exact over all parts of the parameter.
#pragma once

#include "kernels/update/lamb.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// i64 of a parameter: the digits of two exact sums of squares (kernels/square_sum), of the parameter and of its update.
inline constexpr int squares_of_update = 2 * square_sum_limbs;

// A part of a parameter. All views but `squares` are dense and of one count.
struct UpdateSquares {
  Lamb rule;
  base::ConstView parameter;  // f32
  base::ConstView m, v;       // both f32 or both bf16
  bool decays = true;         // whether weight decay applies
  base::View squares = {};    // i64 [squares_of_update]
};
// Adds the squares of the part and of its update (kernels/update/lamb.h) to `squares`, in the order of the Exec. States
// in bf16 are widened. No digit overflows if all parts of a parameter together have at most 2^30 elements since the
// last carry_squares.
void add_update_squares(tensor::Exec& exec, const UpdateSquares& part);
// Carries in each exact sum of i64 [.., square_sum_limbs]; a row above is two sums. So the sums of 2^20 ranks' digits
// (all_reduce as i64) fit.
void carry_squares(tensor::Exec& exec, base::View squares);
// ratios, f32 [rows]: of each row the root of the first sum over the root of the second. It is 1 if either is 0, or if
// f32 does not have the quotient.
void trust_ratios(tensor::Exec& exec, base::ConstView squares, base::View ratios);

}  // namespace trainyard::kernels

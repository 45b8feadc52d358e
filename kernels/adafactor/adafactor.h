// Adafactor (Shazeer and Stern 2018, "Adafactor: adaptive learning rates with sublinear memory cost", algorithms 4 and
// 5), without a first moment: the second moment of a matrix is the product of a row and a column.
#pragma once

#include "kernels/square_sum/fixed_point.h"
#include "kernels/step_numbers/step_numbers_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// A step has these passes over the parts of a parameter that ranks hold. Each f32 operation is rounded on its own, and
// sums are exact or in f64 in a fixed order, so no result depends on how a parameter is divided.
//   add_line_squares    the squares of g = gradient * gradient_scale, by row and by column, as integers; they are
//                       carried (carry_squares in kernels/update/trust_ratio.h) and added over ranks
//   update_lines        row_var and column_var, and the factors of the update
//   add_adafactor_squares  the squares of the parameter and of its update u; they are carried and added
//                       over ranks, too
//   adafactor_update    the parameter
// A parameter with one dim is a matrix of one column whose row_var is the second moment of each element.

struct Adafactor {
  float learning_rate = 1e-2f;  // of the schedule: the most that the relative step size may be
  float weight_decay = 0;
  double step = 1;           // t, which counts updates from 1
  double beta2_decay = 0.8;  // beta2 of step t is 1 - t^-beta2_decay
  bool scale_parameter = true;
  float gradient_scale = 1;
  const StepNumbers* numbers = nullptr;  // in the Exec's device memory, or null; gives the scale; nothing changes if
                                         // its `finite` is 0

  static constexpr double epsilon1 = 1e-30;  // added to each square
  static constexpr double epsilon2 = 1e-3;   // the least root mean square of a parameter for its step
  static constexpr double clip = 1;          // the most root mean square of an update
};

// Consecutive elements of a matrix that a rank holds, row by row. The held matrix may be a slice of the logical one.
struct HeldElements {
  std::int64_t first = 0;  // of the held matrix, row-major
  std::int64_t cols = 1;   // of the held matrix
};

// Adds the squares of `gradient` * scale to the digits of its rows and columns, in the order of the Exec. No digit
// overflows if a row or column gets at most 2^30 elements between carries. Adds nothing in a step that is not finite.
struct LineSquares {
  Adafactor rule;
  base::ConstView gradient;  // f32, dense, elements [first, first + count) of the held matrix
  HeldElements held;
  base::View rows, columns;  // i64 [rows][square_sum_limbs], [cols][square_sum_limbs] of the held matrix
};
void add_line_squares(tensor::Exec& exec, const LineSquares& part);

// Of one logical parameter of r rows and c columns. In f64, then rounded to f32, with w = t^-beta2_decay. A second
// moment is at most the largest f32, so that no factor is of infinity:
//   row_var[i] = row_var[i] + w * (squares of row i / c + epsilon1 - row_var[i])
//   column_var[j] likewise, with squares of column j / r
//   mean = the mean of row_var, in 256 partial sums, i mod 256, each in ascending order, then added in ascending order
//   row_factors[i] = sqrt(mean / row_var[i]),  column_factors[j] = 1 / sqrt(column_var[j])
// of a vector: row_factors[i] = 1 / sqrt(row_var[i]), column_factors[0] = 1. In a step that is not finite row_var and
// column_var stay, and the factors are not used.
struct LineUpdate {
  Adafactor rule;
  base::ConstView row_squares, column_squares;  // i64 [r][square_sum_limbs], [c][square_sum_limbs], carried or not
  base::View row_var, column_var;               // f32 [r], [c]
  base::View row_factors, column_factors;       // f32 [r], [c]
  bool vector = false;                          // the parameter has one dim; then c is 1
};
void update_lines(tensor::Exec& exec, const LineUpdate& lines);

// A part of a parameter for the last two passes. u = ((gradient * scale) * row_factor) * column_factor.
struct AdafactorPart {
  base::ConstView gradient;  // f32, dense
  HeldElements held;
  base::ConstView row_factors, column_factors;  // f32, of the rows and columns of the held matrix
};
// Adds the squares of `parameter` and of u to `squares`, i64 [2 * square_sum_limbs]. As with LAMB, no digit overflows
// if all parts of a parameter together have at most 2^30 elements since the last carry_squares.
void add_adafactor_squares(tensor::Exec& exec, const Adafactor& rule, const AdafactorPart& part,
                           base::ConstView parameter, base::View squares);

// rms(x) = sqrt(sum of squares / count), in f64; rho = min(learning_rate, 1 / sqrt(t)):
//   a = rho * (scale_parameter ? max(epsilon2, rms(p)) : 1) / max(1, rms(u) / clip), rounded to f32
//   p = p * (1 - learning_rate * weight_decay) - a * u,  where the first factor is rounded to f32, and is absent if the
// parameter does not decay
//   working = p rounded to its dtype, where given
struct AdafactorUpdate {
  Adafactor rule;
  AdafactorPart part;
  base::View parameter;     // f32
  base::View working = {};  // bf16 or f16
  base::ConstView squares;  // i64 [2 * square_sum_limbs], of the whole logical parameter
  std::int64_t count = 1;   // elements of the whole logical parameter
  bool decays = true;       // whether weight decay applies
};
void adafactor_update(tensor::Exec& exec, const AdafactorUpdate& update);

}  // namespace trainyard::kernels

// Arguments of Adafactor's passes as plain data, and the arithmetic in f64 that the host and a GPU share.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"
#include "kernels/square_sum/fixed_point.h"
#include "kernels/step_numbers/step_numbers_args.h"

#include <cstdint>

namespace trainyard::kernels {

// Elements [first, first + n) of a matrix with `cols` columns, row-major. `numbers` is for a GPU: it gives the scale,
// and nothing changes if its `finite` is 0. The CPU gets no call in such a step, and the scale by value.
struct AdafactorLinesArgs {
  const float* gradient = nullptr;
  std::int64_t n = 0, first = 0, cols = 1;
  std::int64_t *rows = nullptr, *columns = nullptr;  // digits of each line; they are added to, and not carried
  float scale = 1;
  const StepNumbers* numbers = nullptr;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, adafactor_lines_cpu, (const AdafactorLinesArgs& args))

struct AdafactorSquaresArgs {
  const float *gradient = nullptr, *parameter = nullptr;
  std::int64_t n = 0, first = 0, cols = 1;  // n is at most 2^30
  const float *row_factors = nullptr, *column_factors = nullptr;
  std::int64_t* squares = nullptr;  // the digits of both sums; they are added to, and not carried
  float scale = 1;
  const StepNumbers* numbers = nullptr;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, adafactor_squares_cpu, (const AdafactorSquaresArgs& args))

// What the step size is made of, apart from the sums.
struct AdafactorStepSize {
  double rho = 0;    // the relative step size
  double count = 1;  // elements of the whole parameter
  double epsilon2 = 0, clip = 1;
  bool scale_parameter = true;
};

struct AdafactorUpdateArgs {
  const float* gradient = nullptr;
  float* parameter = nullptr;
  Mat working;  // of n elements, or empty
  std::int64_t n = 0, first = 0, cols = 1;
  const float *row_factors = nullptr, *column_factors = nullptr;
  float scale = 1, keep = 1;  // keep: 1 - learning_rate * weight_decay, or 1
  float step_size = 0;        // the CPU's; a GPU computes it from the next two
  AdafactorStepSize size = {};
  const std::int64_t* squares = nullptr;
  const StepNumbers* numbers = nullptr;
  int threads = 1;
};
TRAINYARD_CPU_KERNEL(void, adafactor_update_cpu, (const AdafactorUpdateArgs& args))

struct AdafactorFactorsArgs {
  const std::int64_t *row_squares = nullptr, *column_squares = nullptr;
  std::int64_t rows = 0, cols = 0;
  float *row_var = nullptr, *column_var = nullptr, *row_factors = nullptr, *column_factors = nullptr;
  double weight = 1, epsilon1 = 0;  // weight: 1 - beta2 of this step
  bool vector = false;
  const StepNumbers* numbers = nullptr;
};

// f64 is rounded after each operation: no product is fused with an addition.
TRAINYARD_ANYWHERE inline double product_by_itself(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

// A second moment after its step, from the digits of its line's squares.
TRAINYARD_ANYWHERE inline float line_var(const AdafactorFactorsArgs& a, const std::int64_t* squares, double elements,
                                         float var) {
  const double before = var, target = value_of_digits(squares) / elements + a.epsilon1;
  const double after = before + product_by_itself(a.weight, target - before);
  constexpr double most = 0x1.fffffep127;  // of f32
  return static_cast<float>(after > most ? most : after);
}
TRAINYARD_ANYWHERE inline float inverse_root(float var) {
  return static_cast<float>(1 / sqrt(static_cast<double>(var)));
}
TRAINYARD_ANYWHERE inline float row_factor(double mean, float var) {
  return static_cast<float>(sqrt(mean / static_cast<double>(var)));
}

// Line l is a row, or a column after all rows: its second moment, and its factor if it does not need the mean.
TRAINYARD_ANYWHERE inline void update_line(const AdafactorFactorsArgs& a, std::int64_t l) {
  if (l < a.rows) {
    a.row_var[l] = line_var(a, a.row_squares + l * square_sum_limbs, static_cast<double>(a.cols), a.row_var[l]);
    if (a.vector) a.row_factors[l] = inverse_root(a.row_var[l]);
    return;
  }
  const std::int64_t c = l - a.rows;
  a.column_var[c] = line_var(a, a.column_squares + c * square_sum_limbs, static_cast<double>(a.rows), a.column_var[c]);
  a.column_factors[c] = a.vector ? 1.0f : inverse_root(a.column_var[c]);
}

inline constexpr int mean_parts = 256;  // partial sums of the mean of row_var

// The factor `a` of the update, from the digits of both sums.
TRAINYARD_ANYWHERE inline float adafactor_step_size(const AdafactorStepSize& s, const std::int64_t* squares) {
  const double of_parameter = sqrt(value_of_digits(squares) / s.count);
  const double of_update = sqrt(value_of_digits(squares + square_sum_limbs) / s.count) / s.clip;
  // NaN stays.
  const double scale = !s.scale_parameter ? 1 : of_parameter < s.epsilon2 ? s.epsilon2 : of_parameter;
  const double clipped = of_update < 1 ? 1 : of_update;
  return static_cast<float>(product_by_itself(s.rho, scale) / clipped);
}

}  // namespace trainyard::kernels

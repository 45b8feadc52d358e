// The coefficients of the Newton-Schulz iterations, and the element-wise parts as plain data for the compiled variants.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/mat.h"
#include "kernels/square_sum/fixed_point.h"

#include <cmath>
#include <cstdint>

namespace trainyard::kernels {

inline constexpr int newton_schulz_steps = 5;
struct NewtonSchulzPolynomial {
  float a = 3.4445f, b = -4.7750f, c = 2.0315f;
};

// The element-wise parts.
//  normalise   out = in / norm, in double and rounded once; zero where the norm is zero
//  polynomial  out = b * in + c * out, and a is added on the diagonal
//  scale       out = scale * in
enum class NewtonSchulzPart : int { normalise, polynomial, scale };
struct NewtonSchulzArgs {
  NewtonSchulzPart part = NewtonSchulzPart::normalise;
  ConstMat in;
  Mat out;                              // may be `in`
  const std::int64_t* limbs = nullptr;  // square_sum_limbs digits: the sum of squares
  NewtonSchulzPolynomial polynomial = {};
  float scale = 1;
  int threads = 1;
};

TRAINYARD_ANYWHERE inline double inverse_norm(const std::int64_t* limbs) {
  const double norm = sqrt(value_of_digits(limbs));
  return norm == 0 ? 0 : 1 / norm;
}

TRAINYARD_CPU_KERNEL(void, newton_schulz_cpu, (const NewtonSchulzArgs& args))

}  // namespace trainyard::kernels

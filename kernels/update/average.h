// A moving average of weights (Polyak and Juditsky 1992; with a decay as in Kingma and Ba 2015, section 7.2).
#pragma once

#include "kernels/update/rule.h"

#include <array>

namespace trainyard::kernels {

// The parameter is the average, and the gradient is the weight after its update, which no scale multiplies. Each
// operation is rounded on its own.
//   p = p + learning_rate * (gradient - p)
// With a learning_rate of (1 - decay) / (1 - decay^t) in update t, p is the weighted mean of t weights, and a weight
// that stays is its own mean.
struct AverageSequence {
  template <class F> TRAINYARD_SEQUENCE void operator()(UpdatedElement<F, 0>& e) const {
    e.parameter = e.parameter + e.rate * (e.gradient - e.parameter);
  }
};

struct Average : UpdateStep {
  using Sequence = AverageSequence;
  static constexpr std::array<const char*, 0> states{};
  static constexpr bool scales_gradient = false;
  Sequence sequence() const { return {}; }
};

}  // namespace trainyard::kernels

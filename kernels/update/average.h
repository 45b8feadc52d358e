// A moving average of weights (Polyak and Juditsky 1992; with a decay as in Kingma and Ba 2015, section 7.2).
#pragma once

#include "kernels/update/rule.h"

#include <array>

namespace trainyard::kernels {

// The parameter is the average, and the gradient is the weight after its update, which no scale multiplies.
// learning_rate is 1 - decay. Each operation is rounded on its own.
//   p = p + learning_rate * (gradient - p)
// An average that begins at 0 is the mean of t weights times 1 - decay^t.
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

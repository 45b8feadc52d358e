// Lion (Chen et al. 2023, algorithm 2).
#pragma once

#include "kernels/update/rule.h"

namespace trainyard::kernels {

// Each operation is rounded on its own. s1 = float(1 - beta1), s2 = float(1 - beta2):
//   g = gradient * gradient_scale
//   c = beta1 * m + s1 * g             (two products, one sum)
//   u = sign(c) + weight_decay * p     (sign is 1 or -1; 0 and NaN stay)
//   m = beta2 * m + s2 * g
//   p = p - learning_rate * u
struct LionSequence {
  float beta1, beta2, s1, s2;

  template <class F> TRAINYARD_SEQUENCE void operator()(UpdatedElement<F, 1>& e) const {
    F& m = e.states[0];
    const F c = F(beta1) * m + F(s1) * e.gradient;
    const F sign = c > F(0) ? F(1) : c < F(0) ? F(-1) : c;
    const F u = sign + e.decay * e.parameter;
    m = F(beta2) * m + F(s2) * e.gradient;
    e.parameter = e.parameter - e.rate * u;
  }
};

struct Lion : UpdateStep {
  float beta1 = 0.9f, beta2 = 0.99f;

  using Sequence = LionSequence;
  static constexpr const char* states[] = {"m"};
  Sequence sequence() const {
    return {.beta1 = beta1,
            .beta2 = beta2,
            .s1 = static_cast<float>(1.0 - static_cast<double>(beta1)),
            .s2 = static_cast<float>(1.0 - static_cast<double>(beta2))};
  }
};

}  // namespace trainyard::kernels

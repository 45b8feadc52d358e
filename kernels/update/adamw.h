// AdamW (Loshchilov and Hutter 2019, algorithm 2) and Adam (Kingma and Ba 2015, algorithm 1).
#pragma once

#include "kernels/update/rule.h"

namespace trainyard::kernels {

// Each operation is rounded on its own. s1 = float(1 - beta1), s2 = float(1 - beta2), c1 = float(1 / bias1), c2 =
// float(1 / bias2):
//   g = gradient * gradient_scale      (Adam: + weight_decay * p; two products, one sum)
//   m = beta1 * m + s1 * g             (two products, one sum)
//   v = beta2 * v + s2 * (g * g)
//   d = sqrt(v * c2) + epsilon
//   u = (m * c1) / d + weight_decay * p   (Adam: without the decay)
//   p = p - learning_rate * u
struct AdamWSequence {
  float beta1, beta2, s1, s2, c1, c2, epsilon;
  bool decay_in_gradient;

  template <class F> TRAINYARD_SEQUENCE void operator()(UpdatedElement<F, 2>& e) const {
    auto& [m, v] = e.states;
    const F g = decay_in_gradient ? e.gradient + e.decay * e.parameter : e.gradient;
    m = F(beta1) * m + F(s1) * g;
    v = F(beta2) * v + F(s2) * (g * g);
    const F d = root(v * F(c2)) + F(epsilon);
    const F u = decay_in_gradient ? (m * F(c1)) / d : (m * F(c1)) / d + e.decay * e.parameter;
    e.parameter = e.parameter - e.rate * u;
  }
};

struct AdamW : UpdateStep {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  double bias1 = 1, bias2 = 1;     // 1 - beta^t, computed on the host in double
  bool decay_in_gradient = false;  // Adam: weight decay belongs to the gradient, as L2 regularisation

  using Sequence = AdamWSequence;
  static constexpr const char* states[] = {"m", "v"};
  Sequence sequence() const {
    return {.beta1 = beta1,
            .beta2 = beta2,
            .s1 = static_cast<float>(1.0 - static_cast<double>(beta1)),
            .s2 = static_cast<float>(1.0 - static_cast<double>(beta2)),
            .c1 = static_cast<float>(1.0 / bias1),
            .c2 = static_cast<float>(1.0 / bias2),
            .epsilon = epsilon,
            .decay_in_gradient = decay_in_gradient};
  }
};

}  // namespace trainyard::kernels

// LAMB (You et al. 2020, "Large batch optimization for deep learning: training BERT in 76 minutes", algorithm 2).
#pragma once

#include "kernels/update/rule.h"

namespace trainyard::kernels {

// An update has three passes, because the rate depends on all of a parameter. Each operation is rounded on its own.
// States in bf16 are rounded after the first pass; the other passes read the rounded states, so both have the same u.
// LambMoments: s1 = float(1 - beta1), s2 = float(1 - beta2):
//   g = gradient * gradient_scale
//   m = beta1 * m + s1 * g             (two products, one sum)
//   v = beta2 * v + s2 * (g * g)
// kernels/update/trust_ratio.h: c1 = float(1 / bias1), c2 = float(1 / bias2):
//   d = sqrt(v * c2) + epsilon
//   u = (m * c1) / d + weight_decay * p
//   r = the norm of p over the norm of u, both of the whole logical parameter
// Lamb, with rate_factor = r:
//   p = p - (learning_rate * r) * u
struct LambSequence {
  float c1, c2, epsilon;

  template <class F> TRAINYARD_SEQUENCE F update_of(const UpdatedElement<F, 2>& e) const {
    const auto& [m, v] = e.states;
    const F d = root(v * F(c2)) + F(epsilon);
    return (m * F(c1)) / d + e.decay * e.parameter;
  }
  template <class F> TRAINYARD_SEQUENCE void operator()(UpdatedElement<F, 2>& e) const {
    e.parameter = e.parameter - e.rate * update_of(e);
  }
};

struct Lamb : UpdateStep {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f;
  double bias1 = 1, bias2 = 1;  // 1 - beta^t, computed on the host in double

  using Sequence = LambSequence;
  static constexpr const char* states[] = {"m", "v"};
  static constexpr UpdateWrites writes = UpdateWrites::parameter;
  Sequence sequence() const {
    return {.c1 = static_cast<float>(1.0 / bias1), .c2 = static_cast<float>(1.0 / bias2), .epsilon = epsilon};
  }
};

struct LambMomentsSequence {
  float beta1, beta2, s1, s2;

  template <class F> TRAINYARD_SEQUENCE void operator()(UpdatedElement<F, 2>& e) const {
    auto& [m, v] = e.states;
    m = F(beta1) * m + F(s1) * e.gradient;
    v = F(beta2) * v + F(s2) * (e.gradient * e.gradient);
  }
};

struct LambMoments : Lamb {
  using Sequence = LambMomentsSequence;
  static constexpr UpdateWrites writes = UpdateWrites::states;
  Sequence sequence() const {
    return {.beta1 = beta1,
            .beta2 = beta2,
            .s1 = static_cast<float>(1.0 - static_cast<double>(beta1)),
            .s2 = static_cast<float>(1.0 - static_cast<double>(beta2))};
  }
};

}  // namespace trainyard::kernels

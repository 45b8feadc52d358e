// SGD with momentum (Sutskever et al. 2013, in the form of PyTorch's torch.optim.SGD).
#pragma once

#include "kernels/update/rule.h"

namespace trainyard::kernels {

// Each operation is rounded on its own.
//   g = gradient * gradient_scale + weight_decay * p   (two products, one sum)
//   b = momentum * b + g
//   u = b, or with nesterov g + momentum * b
//   p = p - learning_rate * u
// So the first step, with a buffer b of zeros, makes the buffer the gradient. Dampening is 0.
struct SgdSequence {
  float momentum;
  bool nesterov;

  template <class F> TRAINYARD_SEQUENCE void operator()(UpdatedElement<F, 1>& e) const {
    F& b = e.states[0];
    const F g = e.gradient + e.decay * e.parameter;
    b = F(momentum) * b + g;
    const F u = nesterov ? g + F(momentum) * b : b;
    e.parameter = e.parameter - e.rate * u;
  }
};

struct Sgd : UpdateStep {
  float momentum = 0.9f;
  bool nesterov = false;

  using Sequence = SgdSequence;
  static constexpr const char* states[] = {"buffer"};
  Sequence sequence() const { return {.momentum = momentum, .nesterov = nesterov}; }
};

}  // namespace trainyard::kernels

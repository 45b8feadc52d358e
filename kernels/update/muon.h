// Muon's step along an orthogonalised update (Jordan et al. 2024; Liu et al. 2025, "Muon is scalable for LLM
// training").
#pragma once

#include "kernels/update/rule.h"

#include <array>

namespace trainyard::kernels {

// The gradient is the orthogonalised direction (kernels/muon, kernels/newton_schulz), which no scale multiplies. Each
// operation is rounded on its own.
//   p = p - learning_rate * (gradient + weight_decay * p)
struct MuonSequence {
  template <class F> TRAINYARD_SEQUENCE void operator()(UpdatedElement<F, 0>& e) const {
    e.parameter = e.parameter - e.rate * (e.gradient + e.decay * e.parameter);
  }
};

// `momentum` and `nesterov` are those of the direction, which has the momentum as its state.
struct Muon : UpdateStep {
  float momentum = 0.95f;
  bool nesterov = false;

  using Sequence = MuonSequence;
  static constexpr std::array<const char*, 0> states{};
  static constexpr bool scales_gradient = false;
  Sequence sequence() const { return {}; }
};

}  // namespace trainyard::kernels

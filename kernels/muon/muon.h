// The element-wise parts of Muon (Jordan et al. 2024; Liu et al. 2025, "Muon is scalable for LLM training"): momentum
// before a matrix is orthogonalised (kernels/newton_schulz), and the step along the result.
#pragma once

#include "kernels/decayed_ranges.h"
#include "kernels/update/rule.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <optional>
#include <span>

namespace trainyard::kernels {

struct Muon : UpdateStep {
  float momentum = 0.95f;
  bool nesterov = false;
};

// Replaces the gradient by the direction that is orthogonalised. Each element goes through these lines in this order,
// each operation rounded on its own. All views are dense and of the same count.
//   g = gradient * gradient_scale
//   m = momentum * m + g
//   gradient = m, or with nesterov g + momentum * m
// A narrow m is widened before these lines, and rounded after them.
struct MuonDirection {
  Muon hyper;
  base::View gradient;  // f32
  base::View m;         // f32, bf16 or f16
};
void muon_direction(tensor::Exec& exec, const MuonDirection& direction);

// The step along an orthogonalised update, with decoupled weight decay.
//   p = p - learning_rate * (update + weight_decay * p)
//   working = p rounded to its dtype, where given
struct MuonUpdate {
  Muon hyper;
  base::ConstView update;   // f32
  base::View parameter;     // f32
  base::View working = {};  // bf16 or f16
  // Weight decay applies to these elements, at most most_decayed_ranges; for all others weight_decay is 0. Absent: it
  // applies to all.
  std::optional<std::span<const Range>> decayed = {};
};
void muon_update(tensor::Exec& exec, const MuonUpdate& update);

}  // namespace trainyard::kernels

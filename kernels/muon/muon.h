// The momentum of Muon (Jordan et al. 2024; Liu et al. 2025, "Muon is scalable for LLM training"), before a matrix is
// orthogonalised (kernels/newton_schulz). The step along the result is a rule of kernels/update.
#pragma once

#include "kernels/update/muon.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

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

}  // namespace trainyard::kernels

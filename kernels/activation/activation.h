// Activations, alone and as the gate of another value.
#pragma once

#include "kernels/activation/activation_form.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// All views are [n, f] in the working dtype and may have pitches. x is the value before the activation. An output may
// be the same view as an input. Slopes of both forms of ReLU at 0 are 0. `form` is not silu.
void activation_forward(tensor::Exec& exec, Activation form, base::ConstView x, base::View y);
void activation_backward(tensor::Exec& exec, Activation form, base::ConstView x, base::ConstView dy, base::View dx);
// y = f(gate) * up (Shazeer 2020, "GLU variants improve transformer"). `form`: silu or a GELU.
void gated_forward(tensor::Exec& exec, Activation form, base::ConstView gate, base::ConstView up, base::View y);
struct GatedBackward {
  Activation form;
  base::ConstView gate, up, dy;
  base::View dgate, dup;
};
void gated_backward(tensor::Exec& exec, const GatedBackward& gated);

}  // namespace trainyard::kernels

// Activations: GELU in both forms, and SwiGLU.
#pragma once

#include "kernels/activation/gelu.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// All views are [n, f] in the working dtype and may have pitches. x is the value before the activation. An output may
// be the same view as an input.
void gelu_forward(tensor::Exec& exec, Gelu form, base::ConstView x, base::View y);
void gelu_backward(tensor::Exec& exec, Gelu form, base::ConstView x, base::ConstView dy, base::View dx);
// y = silu(gate) * up (Shazeer 2020, "GLU variants improve transformer").
void swiglu_forward(tensor::Exec& exec, base::ConstView gate, base::ConstView up, base::View y);
void swiglu_backward(tensor::Exec& exec, base::ConstView gate, base::ConstView up, base::ConstView dy, base::View dgate,
                     base::View dup);

}  // namespace trainyard::kernels

// The function that a model's activation names.
#pragma once

#include "kernels/activation/activation_form.h"
#include "libtrain/plan/spec/model_config.h"

namespace trainyard::model {

// Of a gated activation: the function of the gate.
inline kernels::Activation activation_form(const plan::ModelConfig& model) {
  using From = plan::Activation;
  using To = kernels::Activation;
  switch (model.activation) {
    case From::gelu_tanh:
    case From::geglu_tanh: return To::gelu_tanh;
    case From::gelu_erf:
    case From::geglu_erf: return To::gelu_erf;
    case From::relu: return To::relu;
    case From::relu_squared: return To::relu_squared;
    case From::swiglu: break;
  }
  return To::silu;
}

}  // namespace trainyard::model

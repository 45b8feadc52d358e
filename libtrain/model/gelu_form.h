// The form of GELU that a model's activation names.
#pragma once

#include "kernels/activation/gelu.h"
#include "libtrain/plan/spec/model_config.h"

namespace trainyard::model {

// For models whose activation is not gated.
inline kernels::Gelu gelu_form(const plan::ModelConfig& model) {
  return model.activation == plan::Activation::gelu_erf ? kernels::Gelu::erf : kernels::Gelu::tanh;
}

}  // namespace trainyard::model

// Activation: names the function of an activation.
#pragma once

namespace trainyard::kernels {

// gelu_tanh, gelu_erf: the two forms of GELU (Hendrycks and Gimpel 2016), 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715
// x^3))) and x Phi(x) itself, where Phi is the normal distribution. relu: max(x, 0). relu_squared: max(x, 0)^2. silu: x
// / (1 + exp(-x)).
enum class Activation : int { gelu_tanh, gelu_erf, relu, relu_squared, silu };

}  // namespace trainyard::kernels

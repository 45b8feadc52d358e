// Gelu: names one of the two forms of GELU (Hendrycks and Gimpel 2016).
#pragma once

namespace trainyard::kernels {

// tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). erf: x Phi(x) itself, where Phi is the normal distribution.
enum class Gelu : int { tanh, erf };

}  // namespace trainyard::kernels

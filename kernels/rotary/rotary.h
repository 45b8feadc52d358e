// Rotary positions (Su et al. 2021), half-split pairs (i, i + d/2) as in Llama.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// x [n, heads * head_dim] in place; positions i32 [b, T], n = b * T. Pair i of a head at position p turns by p *
// base^(-2i / head_dim); angles and their cosines are made in double on the host. backward is the inverse rotation, the
// adjoint. Scratch: plan::rotary_scratch_bytes(n, head_dim).
void rotary_forward(tensor::Exec& exec, base::View x, base::View positions, std::int64_t heads, std::int64_t head_dim,
                    double base);
void rotary_backward(tensor::Exec& exec, base::View x, base::View positions, std::int64_t heads, std::int64_t head_dim,
                     double base);

}  // namespace trainyard::kernels

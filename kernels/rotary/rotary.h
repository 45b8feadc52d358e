// Rotary positions (Su et al. 2021) on half-split pairs (i, i + d/2), as in Llama.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// Rotates x [n, heads * head_dim] in place. positions is i32 [b, T], and n = b * T. Pair i of a head at position p
// turns by the angle p * base^(-2i / head_dim). Angles and their cosines and sines are computed in double on the host.
// backward is the inverse rotation, which is the adjoint. Scratch: plan::rotary_scratch_bytes(n, head_dim).
void rotary_forward(tensor::Exec& exec, base::View x, base::ConstView positions, std::int64_t heads,
                    std::int64_t head_dim, double base);
void rotary_backward(tensor::Exec& exec, base::View x, base::ConstView positions, std::int64_t heads,
                     std::int64_t head_dim, double base);

}  // namespace trainyard::kernels

// Rotary positions (Su et al. 2021) on half-split pairs, as in Llama.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/plan/spec/rotary_config.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

struct RotaryHeads {
  std::int64_t heads, head_dim;
  double base = 10000;
  plan::RotaryConfig config = {};  // scaling, and which part of a head rotates; local_base is not read
};
// Rotates x [n, heads * head_dim] in place. positions is i32 [b, T], and n = b * T. The first d =
// plan::rotated_width(config, head_dim) channels of a head are pairs (i, i + d/2); the others stay. Pair i at position
// p turns by the angle p * base^(-2i / d), scaled as `config` says. Angles and their cosines and sines are computed in
// double on the host. backward is the adjoint: the inverse rotation, with the same factor of cosines and sines.
// Scratch: plan::rotary_scratch_bytes(n, d).
void rotary_forward(tensor::Exec& exec, base::View x, base::ConstView positions, const RotaryHeads& heads);
void rotary_backward(tensor::Exec& exec, base::View x, base::ConstView positions, const RotaryHeads& heads);

}  // namespace trainyard::kernels

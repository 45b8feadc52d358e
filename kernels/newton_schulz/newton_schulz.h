// Orthogonalisation of a matrix by Newton-Schulz iterations, as Muon does it (Jordan et al. 2024): its singular values
// become nearly 1, and its singular vectors stay.
#pragma once

#include "kernels/newton_schulz/newton_schulz_args.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// Overwrites x, f32 and dense, by scale * p(x / |x|). |x| is the Frobenius norm, from the exact sum of squares. p is
// `newton_schulz_steps` times the polynomial a x + b (x x') x + c (x x')^2 x, with the coefficients of
// newton_schulz_args.h. It moves every singular value above 0.002 into [0.68, 1.21]. A matrix of zeros stays zero.
//
// With s the smaller of rows and columns, a step is
//   gram = x x' (or x' x, if there are fewer columns than rows), s x s
//   square = gram gram
//   square = b * gram + c * square, and a is added on the diagonal; each operation rounded on its own
//   x = square x (or x square)
// The three products are kernels/gemm in f32. So the bits depend on no number of threads, and on no other matrix.
//
// The Exec is a caller's or a GPU's. Scratch: plan::newton_schulz_scratch_bytes. The host does not wait for the Exec.
void newton_schulz(tensor::Exec& exec, base::View x, float scale);

}  // namespace trainyard::kernels

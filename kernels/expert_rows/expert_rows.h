// Tokens to the rows of experts and back, by index; and the gradients of that.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// S tokens with k choices each, R rows. rows i32 [S, k] and sources i32 [R] are those of a gate (kernels/gate): rows
// says where a choice of a token stands, -1 nowhere; sources the token * k + choice of a row, -1 of a row that nobody
// has. weights and d_weights T [S, k], T the accumulation dtype. The others are in the working dtype. Scratch: none.

// y [R, h]: row r is x[sources[r] / k]; rows that nobody has are not touched.
void expert_dispatch(tensor::Exec& exec, base::View x, base::View sources, std::int64_t k, base::View y);
// dx [S, h] = add + the sum over the choices that stand somewhere, in their order, of dy[rows[s, j]]: added in T,
// rounded once. add T [S, h], or empty.
void expert_dispatch_backward(tensor::Exec& exec, base::View dy, base::View rows, base::View add, base::View dx);

// out [S, h] = the sum over the choices that stand somewhere, in their order, of weights[s, j] * y[rows[s, j]]: each
// product and sum rounded in T, the result once. A token that stands nowhere gets zeros.
void expert_combine(tensor::Exec& exec, base::View y, base::View rows, base::View weights, base::View out);
// dy [R, h]: row r is weights[sources[r]] * dout[sources[r] / k], rows that nobody has are not touched. d_weights[s, j]
// = the sum over channels of dout[s] * y[rows[s, j]], in an order that no number of threads changes; 0 for a choice
// that stands nowhere. dy and y may be the same view.
void expert_combine_backward(tensor::Exec& exec, base::View dout, base::View y, base::View rows, base::View sources,
                             base::View weights, base::View dy, base::View d_weights);

}  // namespace trainyard::kernels

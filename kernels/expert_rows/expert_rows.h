// Copies tokens to the rows of experts and combines the results, by index; and the gradients of both.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// There are S tokens with k choices each, and R rows. rows, i32 [S, k], and sources, i32 [R], come from a gate
// (kernels/gate). rows has the row of each choice, or -1 if it has none. sources has token * k + choice for
// each row, or -1 if the row is unused. weights and d_weights are [S, k] in the accumulation dtype T. All other views
// are in the working dtype. Scratch: none.

// y is [R, h]: row r is x[sources[r] / k]. Unused rows are not written.
void expert_dispatch(tensor::Exec& exec, base::ConstView x, base::ConstView sources, std::int64_t k, base::View y);
// dx [S, h] = add + the sum of dy[rows[s, j]] over the choices that have a row, in their order. It is added in T and
// rounded once. add is [S, h] in T, or empty.
void expert_dispatch_backward(tensor::Exec& exec, base::ConstView dy, base::ConstView rows, base::ConstView add,
                              base::View dx);

// out [S, h] = the sum of weights[s, j] * y[rows[s, j]] over the choices that have a row, in their order. Each product
// and sum is rounded in T, then the result is rounded once. A token without any row gets zeros.
void expert_combine(tensor::Exec& exec, base::ConstView y, base::ConstView rows, base::ConstView weights,
                    base::View out);
// Row r of dy is weights[sources[r]] * dout[sources[r] / k]. Unused rows are not written. d_weights[s, j] = the sum
// over channels of dout[s] * y[rows[s, j]], or 0 for a choice without a row. The order of that sum does not depend on
// the number of threads.
struct ExpertCombineBackward {
  base::ConstView dout;     // [S, h]
  base::ConstView y;        // [R, h]
  base::ConstView rows;     // i32 [S, k]
  base::ConstView sources;  // i32 [R]
  base::ConstView weights;  // [S, k] in T
  base::View dy;            // [R, h]; may be the view of y
  base::View d_weights;     // [S, k] in T
};
void expert_combine_backward(tensor::Exec& exec, const ExpertCombineBackward& combine);

}  // namespace trainyard::kernels

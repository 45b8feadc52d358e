// The sum of lanes: what the products in lanes of several ranks add up to (kernels/linear/linear.h).
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// out[i] = round(sum over r of pieces[r][i] + bias[(first + i) % bias.count()]), i in [0, out.count()), `out` row by
// row. Rows are added as a binary tree of neighbours, ((0+1)+(2+3))+..., or from left to right where their number is no
// power of two: one rounding for each addition, one more where `out` is bf16. pieces [t, count] f32 (rows may be
// pitched), out f32 or bf16, or both f64; bias of any of these dtypes, or empty. `out` may be a row of pieces where
// dtypes agree. The same bits on a GPU. No scratch.
void lane_sum(tensor::Exec& exec, base::View pieces, base::View bias, std::int64_t first, base::View out);

}  // namespace trainyard::kernels

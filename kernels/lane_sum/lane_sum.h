// The sum of reduction lanes: adds the partial results that products in lanes give on several ranks
// (kernels/linear/linear.h).
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// out[i] = round(sum over r of pieces[r][i] + bias[(first + i) % bias.count()]) for i in [0, out.count()), `out` row by
// row. Rows are added as a binary tree of neighbours, ((0+1)+(2+3))+..., or from left to right if their number is no
// power of two. Each addition is rounded once, and the result once more if `out` is narrow. pieces is [t, count] f32,
// rows may have a pitch, and out is f32, bf16 or f16; or both are f64. bias has any of these dtypes, or is empty. `out`
// may be a row of pieces if the dtypes agree. A GPU gives the same bits. No scratch.
void lane_sum(tensor::Exec& exec, base::ConstView pieces, base::ConstView bias, std::int64_t first, base::View out);

}  // namespace trainyard::kernels

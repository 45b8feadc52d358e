// Table lookup and its gradient.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// out [n, h] = table[tokens] + position_table[positions] (position_table may be empty). tokens and positions i32 [b,
// T], n = b * T.
void embedding_forward(tensor::Exec& exec, base::View tokens, base::View positions, base::View table,
                       base::View position_table, base::View out);
// dtable [rows, h], f32 (f64 for f64), every row overwritten: the rows of dout whose index is that row, added in
// ascending token order.
void embedding_backward(tensor::Exec& exec, base::View indices, base::View dout, base::View dtable);

}  // namespace trainyard::kernels

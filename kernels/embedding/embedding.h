// Table lookup and its gradient.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// out [n, h] = table[tokens] + position_table[positions] (position_table may be empty). tokens and positions i32 [b,
// T], n = b * T.
void embedding_forward(tensor::Exec& exec, base::View tokens, base::View positions, base::View table,
                       base::View position_table, base::View out);
// The same in two steps where ranks share the table, with the same bits. First each rank looks up what lies in its rows
// [first_row, first_row + table.rows()) of a table of all_rows; other tokens get rows of zero bits: of the ranks'
// words for an element all but one are 0, and their sum as integers is that one, also where it is -0.0.
void embedding_lookup(tensor::Exec& exec, base::View tokens, base::View table, std::int64_t first_row,
                      std::int64_t all_rows, base::View out);
// Then out += position_table[positions], rounded once.
void embedding_add(tensor::Exec& exec, base::View positions, base::View position_table, base::View out);

// dtable [rows, h], f32 (f64 for f64), every row overwritten: the rows of dout whose index is first_row + that row,
// added in ascending token order. Indices of rows that are not here are passed over.
void embedding_backward(tensor::Exec& exec, base::View indices, std::int64_t first_row, base::View dout,
                        base::View dtable);

}  // namespace trainyard::kernels

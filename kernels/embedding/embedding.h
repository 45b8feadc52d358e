// Table lookup and its gradient.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// out [n, h] = scale * table[tokens] + position_table[positions]; position_table may be empty. tokens and positions are
// i32 [b, T], and n = b * T. The scale is rounded to the dtype of the table, and so is the scaled row before a position
// is added to it.
struct EmbeddingForward {
  base::ConstView tokens, positions = {};
  base::ConstView table, position_table = {};
  base::View out;
  double scale = 1;
};
void embedding_forward(tensor::Exec& exec, const EmbeddingForward& embedding);
// The first of two steps for tensor-parallel ranks that share the table; the steps have the bits of embedding_forward.
// A rank looks up the tokens in its rows [first_row, first_row + table.rows()) of a table of all_rows. Other tokens get
// rows of zero bits. Among the ranks' words for an element all but one are then 0. So the sum of these words as
// integers is that word, even if it is -0.0.
struct EmbeddingLookup {
  base::ConstView tokens, table;
  std::int64_t first_row, all_rows;
  base::View out;
  double scale = 1;
};
void embedding_lookup(tensor::Exec& exec, const EmbeddingLookup& lookup);
// The second step: out += position_table[positions], rounded once.
void embedding_add(tensor::Exec& exec, base::ConstView positions, base::ConstView position_table, base::View out);

// dtable is [rows, h] in f32 (f64 for f64), and every row is overwritten. Row r gets the sum of the rows of dout whose
// index is first_row + r, times the scale that forward had, added in ascending token order. Indices of rows that this
// rank does not hold are skipped. first_row may be negative: the first rows then have no index.
void embedding_backward(tensor::Exec& exec, base::ConstView indices, std::int64_t first_row, base::ConstView dout,
                        base::View dtable, double scale = 1);

}  // namespace trainyard::kernels

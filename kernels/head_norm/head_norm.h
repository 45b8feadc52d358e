// RMS norms of queries and keys (Henry et al. 2020, "Query-key normalization for transformers"; Dehghani et al. 2023,
// "Scaling vision transformers to 22 billion parameters"): over each head, or over all heads together.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// T is the working dtype, and G the dtype of sums: f32; f64 for f64. A row of x consists of equal groups of
// neighbouring columns, and each group is normed on its own. Ranks may divide a group, so its sums come from the
// caller. Column c is multiplied by weight[c modulo the weights] + offset: all groups share the weights, or a single
// group has a weight for each column. Pitches are honoured. The bits do not depend on the number of threads.

// out[s][r] = the sum over the columns c of slice s of row r of x[c]^2, or if dy is given, of dy[c] (weight + offset)
// x[c]. Each is a sum in sixteen lanes. No scratch.
struct HeadNormSums {
  base::ConstView x;                     // [n, c] in T
  base::ConstView dy = {}, weight = {};  // [n, c], [w] in T; both or neither
  double offset = 0;
  base::View out;  // [slices, n] in G
};
void head_norm_sums(tensor::Exec& exec, const HeadNormSums& sums);

// How a group is normed: y = x rstd (weight + offset) with rstd = 1 / sqrt(squares / width + epsilon).
struct HeadNorm {
  base::ConstView weight;   // [w] in T
  base::ConstView squares;  // [groups, n] in G: the sums of squares
  std::int64_t width;       // elements of a group, on all ranks together
  double epsilon, offset = 0;
};
void head_norm_forward(tensor::Exec& exec, const HeadNorm& norm, base::ConstView x, base::View y);  // y may be x

// dx is overwritten. Row s of dweight is overwritten by the sum of dy x rstd over the rows, in blocks of
// plan::column_sum_rows, and over the columns of slice s that have one weight, ascending within a row. Scratch:
// plan::column_sum_scratch_bytes(n, slices * w).
struct HeadNormBackward {
  HeadNorm norm;
  base::ConstView dy, x;  // [n, c] in T
  base::ConstView dots;   // [groups, n] in G: the sums of dy (weight + offset) x
  base::View dx;          // [n, c] in T; may be dy
  base::View dweight;     // [slices, w] in G
};
void head_norm_backward(tensor::Exec& exec, const HeadNormBackward& backward);

}  // namespace trainyard::kernels

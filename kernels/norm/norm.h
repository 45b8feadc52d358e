// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019), also fused with the residual addition before the
// norm.
#pragma once

#include "kernels/dropout/dropout.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// T is the working dtype, and G the dtype of statistics: f32; f64 for f64. Statistics are computed in G, by sums in
// sixteen lanes. RMS norm has neither bias nor mean. Norms multiply by weight + offset, a sum in G.
struct NormForward {
  base::ConstView x;          // [n, h] in T
  base::ConstView weight;     // [h] in T
  base::ConstView bias = {};  // [h] in T
  double epsilon;
  base::View y;          // [n, h] in T; may be the view of x
  base::View mean = {};  // [n] in G
  base::View rstd;       // [n] in G
  double offset = 0;
};
void layer_norm_forward(tensor::Exec& exec, const NormForward& norm);
void rms_norm_forward(tensor::Exec& exec, const NormForward& norm);

// sum = residual + dropout(branch), and y is the norm of sum.
struct NormResidualForward {
  base::ConstView residual, branch;  // [n, h] in T
  Dropout dropout;
  base::ConstView weight;     // [h] in T
  base::ConstView bias = {};  // [h] in T
  double epsilon;
  base::View sum;        // [n, h] in T; may be the view of residual or branch
  base::View y;          // [n, h] in T; may be the view of residual or sum
  base::View mean = {};  // [n] in G
  base::View rstd;       // [n] in G
  double offset = 0;
};
void layer_norm_residual_forward(tensor::Exec& exec, const NormResidualForward& norm);
void rms_norm_residual_forward(tensor::Exec& exec, const NormResidualForward& norm);

enum class Into { overwrite, add };
// The gradient through the norm overwrites dx or is added to it. dweight and dbias are overwritten. They are sums over
// fixed blocks of plan::column_sum_rows rows, and the blocks are added in ascending order. Scratch:
// plan::norm_scratch_bytes.
struct NormBackward {
  base::ConstView dy, x;      // [n, h] in T
  base::ConstView weight;     // [h] in T
  base::ConstView mean = {};  // [n] in G
  base::ConstView rstd;       // [n] in G
  base::View dx;              // [n, h] in T; may be the view of dy with Into::overwrite
  base::View dweight;         // [h] in G
  base::View dbias = {};      // [h] in G
  Into into = Into::add;
  double offset = 0;
};
void layer_norm_backward(tensor::Exec& exec, const NormBackward& norm);
void rms_norm_backward(tensor::Exec& exec, const NormBackward& norm);

// The first of two steps for ranks that share the rows of a micro-batch; the steps have the bits of the backward above.
// Ranks hold neighbouring runs of rows in ascending rank. Every run but the last consists of whole blocks of
// plan::column_sum_rows. This step computes dx of the rank's rows and the partial sums of its blocks.
struct NormBackwardRows {
  base::ConstView dy, x;      // [n, h] in T
  base::ConstView weight;     // [h] in T
  base::ConstView mean = {};  // [n] in G
  base::ConstView rstd;       // [n] in G
  base::View dx;              // [n, h] in T; may be the view of dy with Into::overwrite
  base::View partials;  // [2, blocks, h] in G, dense: the sums of dweight, then those of dbias (zeros for RMS norm)
  Into into = Into::add;
  double offset = 0;
};
void layer_norm_backward_rows(tensor::Exec& exec, const NormBackwardRows& norm);
void rms_norm_backward_rows(tensor::Exec& exec, const NormBackwardRows& norm);
// The second step: dweight and dbias (empty for RMS norm) from the partial sums of all ranks, [ranks, 2, blocks, h].
void norm_partial_sums(tensor::Exec& exec, base::ConstView partials, std::int64_t ranks, base::View dweight,
                       base::View dbias);

}  // namespace trainyard::kernels

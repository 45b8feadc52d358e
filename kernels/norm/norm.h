// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019), also fused with the residual addition before the
// norm.
#pragma once

#include "kernels/dropout/dropout.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// x and y are [n, h] in T and may be the same view. weight and bias are [h] in T. mean and rstd are [n] in G (f32; f64
// for f64). Statistics are computed in G, by sums in sixteen lanes.
void layer_norm_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, double epsilon,
                        base::View y, base::View mean, base::View rstd);
void rms_norm_forward(tensor::Exec& exec, base::View x, base::View weight, double epsilon, base::View y,
                      base::View rstd);

// sum = residual + dropout(branch), and y is the norm of sum. sum may be the same view as residual or branch. y may be
// the same view as residual or sum.
void layer_norm_residual_forward(tensor::Exec& exec, base::View residual, base::View branch, const Dropout& dropout,
                                 base::View sum, base::View weight, base::View bias, double epsilon, base::View y,
                                 base::View mean, base::View rstd);
void rms_norm_residual_forward(tensor::Exec& exec, base::View residual, base::View branch, const Dropout& dropout,
                               base::View sum, base::View weight, double epsilon, base::View y, base::View rstd);

enum class Into { overwrite, add };
// The gradient through the norm overwrites dx or is added to it. dweight and dbias, [h] in G, are overwritten. They are
// sums over fixed blocks of plan::column_sum_rows rows, and the blocks are added in ascending order. Scratch:
// plan::norm_scratch_bytes. dx may be dy with Into::overwrite.
void layer_norm_backward(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean,
                         base::View rstd, base::View dx, base::View dweight, base::View dbias, Into into = Into::add);
void rms_norm_backward(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View rstd,
                       base::View dx, base::View dweight, Into into = Into::add);

// The first of two steps for ranks that share the rows of a micro-batch; the steps have the bits of the backward above.
// Ranks hold neighbouring runs of rows in ascending rank. Every run but the last consists of whole blocks of
// plan::column_sum_rows. This step computes dx of the rank's rows and the partial sums of its blocks. partials is [2,
// blocks, h] in G, dense: first the sums of dweight, then those of dbias (zeros for RMS norm).
void layer_norm_backward_rows(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean,
                              base::View rstd, base::View dx, base::View partials, Into into = Into::add);
void rms_norm_backward_rows(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View rstd,
                            base::View dx, base::View partials, Into into = Into::add);
// The second step: dweight and dbias (empty for RMS norm) from the partial sums of all ranks, [ranks, 2, blocks, h].
void norm_partial_sums(tensor::Exec& exec, base::View partials, std::int64_t ranks, base::View dweight,
                       base::View dbias);

}  // namespace trainyard::kernels

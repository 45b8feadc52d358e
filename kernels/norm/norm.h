// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019), also fused with the residual addition before
// them.
#pragma once

#include "kernels/dropout/dropout.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// x, y [n, h] in T, which may be the same view; weight, bias [h] in T; mean, rstd [n] in G (f32; f64 for f64).
// Statistics in G by sixteen-lane sums.
void layer_norm_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, double epsilon,
                        base::View y, base::View mean, base::View rstd);
void rms_norm_forward(tensor::Exec& exec, base::View x, base::View weight, double epsilon, base::View y,
                      base::View rstd);

// sum = residual + dropout(branch), then y, the norm of sum. sum may be the same view as residual or branch, y as
// residual or sum.
void layer_norm_residual_forward(tensor::Exec& exec, base::View residual, base::View branch, const Dropout& dropout,
                                 base::View sum, base::View weight, base::View bias, double epsilon, base::View y,
                                 base::View mean, base::View rstd);
void rms_norm_residual_forward(tensor::Exec& exec, base::View residual, base::View branch, const Dropout& dropout,
                               base::View sum, base::View weight, double epsilon, base::View y, base::View rstd);

enum class Into { overwrite, add };
// dx gets, or gets added, the gradient through the norm; dweight and dbias [h] in G are overwritten: sums over fixed
// blocks of plan::column_sum_rows rows, blocks added in ascending order. Scratch: plan::norm_scratch_bytes. dx may be
// dy with Into::overwrite.
void layer_norm_backward(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean,
                         base::View rstd, base::View dx, base::View dweight, base::View dbias, Into into = Into::add);
void rms_norm_backward(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View rstd,
                       base::View dx, base::View dweight, Into into = Into::add);

// The same in two steps where ranks share the rows of a micro-batch, with the same bits: neighbouring runs of rows in
// ascending rank, each but the last in whole blocks of plan::column_sum_rows. First dx of these rows, and the partial
// sums of their blocks, partials [2, blocks, h] in G, dense: those of dweight, then those of dbias (zeros for RMS
// norm).
void layer_norm_backward_rows(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View mean,
                              base::View rstd, base::View dx, base::View partials, Into into = Into::add);
void rms_norm_backward_rows(tensor::Exec& exec, base::View dy, base::View x, base::View weight, base::View rstd,
                            base::View dx, base::View partials, Into into = Into::add);
// Then dweight and dbias (empty for RMS norm) from the partials of all ranks, [ranks, 2, blocks, h].
void norm_fold_partials(tensor::Exec& exec, base::View partials, std::int64_t ranks, base::View dweight,
                        base::View dbias);

}  // namespace trainyard::kernels

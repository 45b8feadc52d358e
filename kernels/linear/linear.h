// Linear layers: y = x W^T + b and its gradients. Weights are [out, in].
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// x [n, in], weight [out, in], bias [out] or empty, y [n, out]; working dtype T. y must not alias x.
void linear_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, base::View y);
// pre = x W^T + b is kept for backward, y = gelu_tanh(pre).
void linear_gelu_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, base::View pre,
                         base::View y);

// dx [n, in] = dy [n, out] W, overwritten. dx may be f32 beside bf16 operands.
void linear_backward_input(tensor::Exec& exec, base::View dy, base::View weight, base::View dx);
// dx = (dy W) * gelu_tanh'(pre), pre and dx [n, in]; pre is what linear_gelu_forward kept. dx must not alias dy.
void linear_gelu_backward_input(tensor::Exec& exec, base::View dy, base::View weight, base::View pre, base::View dx);
// dx += dy W. f32 adds the blocks of gemm_block_k to dx in ascending order, f64 the whole product once; a bf16 dx is
// not offered (the sum would be rounded twice), an f32 dx beside bf16 operands is.
void linear_backward_input_add(tensor::Exec& exec, base::View dy, base::View weight, base::View dx);

// dweight [out, in] = dy^T x, overwritten (beta = 0); f32 for T = f32 and bf16, f64 for f64. dbias [out] or empty:
// column sums of dy over fixed blocks of plan::column_sum_rows rows, blocks added in ascending order (a GPU: in the
// order of cuBLASLt where it fuses them). Scratch: plan::column_sum_scratch_bytes.
void linear_backward_weight(tensor::Exec& exec, base::View dy, base::View x, base::View dweight, base::View dbias);

}  // namespace trainyard::kernels

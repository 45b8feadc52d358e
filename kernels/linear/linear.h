// Linear layers: y = x W^T + b and its gradients. Weights are [out, in].
#pragma once

#include "kernels/activation/gelu.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <span>

namespace trainyard::kernels {

// x [n, in], weight [out, in], bias [out] or empty, y [n, out]; working dtype T. y must not alias x.
void linear_forward(tensor::Exec& exec, base::View x, base::View weight, base::View bias, base::View y);
// pre = x W^T + b is kept for backward, y = GELU(pre).
void linear_gelu_forward(tensor::Exec& exec, Gelu form, base::View x, base::View weight, base::View bias,
                         base::View pre, base::View y);

// dx [n, in] = dy [n, out] W, overwritten. dx may be f32 beside bf16 operands.
void linear_backward_input(tensor::Exec& exec, base::View dy, base::View weight, base::View dx);
// dx = (dy W) * GELU'(pre), pre and dx [n, in]; pre is what linear_gelu_forward kept. dx must not alias dy.
void linear_gelu_backward_input(tensor::Exec& exec, Gelu form, base::View dy, base::View weight, base::View pre,
                                base::View dx);
// dx += dy W. f32 adds the blocks of gemm_block_k to dx in ascending order, f64 the whole product once; a bf16 dx is
// not offered (the sum would be rounded twice), an f32 dx beside bf16 operands is.
void linear_backward_input_add(tensor::Exec& exec, base::View dy, base::View weight, base::View dx);

// dweight [out, in] = dy^T x, overwritten (beta = 0); f32 for T = f32 and bf16, f64 for f64. dbias [out] or empty:
// column sums of dy over fixed blocks of plan::column_sum_rows rows, blocks added in ascending order (a GPU: in the
// order of cuBLASLt where it fuses them). Scratch: plan::column_sum_scratch_bytes.
void linear_backward_weight(tensor::Exec& exec, base::View dy, base::View x, base::View dweight, base::View dbias);

// Products that ranks can share: their sum is made in `lanes` equal slices, so that a rank with a power of two of
// neighbouring lanes has a partial sum that kernels::lane_sum adds to those of others to the same bits.
// A lane's sum is the left fold of blocks that begin from zero: of its slice of the first part, then of the next
// part's; f32 and bf16 in blocks of gemm_block_k that cross neither slice nor part, f64 a slice at once. Lanes are
// added as a binary tree of neighbours, ((0+1)+(2+3))+..., or from left to right where `lanes` is no power of two; then
// comes the bias, then one rounding. So 1 lane and 1 part are linear_forward and linear_backward_input. A GPU makes
// each part of a lane one product, added in f32 from left to right, and then lanes as lane_sum does. Scratch:
// plan::lane_gemm_scratch_bytes; plan::gpu_lane_gemm_scratch_bytes.

// y [n, out] = x W^T + b. `lanes` divides `in`. y: working dtype, or f32 beside bf16 operands, then without bias.
void linear_forward_lanes(tensor::Exec& exec, base::View x, base::View weight, base::View bias, std::int64_t lanes,
                          base::View y);

struct LinearPart {
  base::View dy, weight;  // [n, out], [out, in]
};
// Whether a GPU may make parts that are neighbours in memory one product where there is one lane: not if another rank
// has the same lanes beside others.
enum class Neighbours { together, apart };
// dx [n, in] = the sum over the parts (3 at most) of dy W. `lanes` divides each `out`. dx: working dtype, or f32 beside
// bf16 operands. A dy may be columns of a tensor.
void linear_backward_input_lanes(tensor::Exec& exec, std::span<const LinearPart> parts, std::int64_t lanes,
                                 base::View dx, Neighbours neighbours = Neighbours::together);

}  // namespace trainyard::kernels

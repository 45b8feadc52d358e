// Linear layers: y = x W^T + b and its gradients. Weights are [out, in].
#pragma once

#include "kernels/activation/activation_form.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <span>

namespace trainyard::kernels {

// x [n, in], weight [out, in], bias [out] or empty, y [n, out], all in the working dtype T. y must not alias x.
void linear_forward(tensor::Exec& exec, base::ConstView x, base::ConstView weight, base::ConstView bias, base::View y);
// pre = x W^T + b; y = f(pre), where f is the activation.
struct LinearActivation {
  Activation form;
  base::ConstView x, weight;  // [n, in], [out, in]
  base::ConstView bias = {};  // [out]
  base::View pre;             // [n, out], kept for backward
  base::View y;               // [n, out]
};
void linear_activation_forward(tensor::Exec& exec, const LinearActivation& linear);

// dx [n, in] = dy [n, out] W, overwritten. dx may be f32 with bf16 operands.
void linear_backward_input(tensor::Exec& exec, base::ConstView dy, base::ConstView weight, base::View dx);
// dx = (dy W) * f'(pre); pre and dx are [n, in], and pre is what linear_activation_forward kept. dx must not alias dy.
void linear_activation_backward_input(tensor::Exec& exec, Activation form, base::ConstView dy, base::ConstView weight,
                                      base::ConstView pre, base::View dx);
// dx += dy W. In f32, blocks of gemm_block_k steps are added to dx in ascending order; in f64, the whole product is
// added once. dx may be f32 with bf16 operands, but not bf16, because the sum would be rounded twice.
void linear_backward_input_add(tensor::Exec& exec, base::ConstView dy, base::ConstView weight, base::View dx);

// dweight [out, in] = dy^T x, overwritten (beta = 0). It is f64 for T = f64, otherwise f32. dbias [out], or
// empty, gets the column sums of dy over fixed blocks of plan::column_sum_rows rows, added in ascending order. On a GPU
// it has cuBLASLt's order where the library fuses it. Scratch: plan::column_sum_scratch_bytes.
void linear_backward_weight(tensor::Exec& exec, base::ConstView dy, base::ConstView x, base::View dweight,
                            base::View dbias);

// Products in reduction lanes, which tensor-parallel ranks can share. The sum is made in `lanes` equal slices. A rank
// with a power of two of neighbouring lanes gets one partial sum. kernels::lane_sum adds the ranks' partial sums to the
// bits of one rank that has all lanes.
//
// A lane is a left-to-right sum of blocks that begin from zero: first its slice of the first part, then of the next
// parts. All but f64 use blocks of gemm_block_k steps that cross neither slice nor part; f64 takes a slice at once.
// Lanes are added as a binary tree of neighbours, ((0+1)+(2+3))+..., or from left to right if `lanes` is no power of
// two. The bias comes next, then one rounding. With 1 lane and 1 part this equals linear_forward and
// linear_backward_input.
//
// On a GPU each part of a lane is one product. Parts are added in f32 from left to right, then lanes as in lane_sum.
// Scratch: plan::lane_gemm_scratch_bytes; plan::gpu_lane_gemm_scratch_bytes.

// y [n, out] = x W^T + b. `lanes` divides `in`. y has the working dtype, or f32 with bf16 operands, then without bias.
void linear_forward_lanes(tensor::Exec& exec, base::ConstView x, base::ConstView weight, base::ConstView bias,
                          std::int64_t lanes, base::View y);

struct LinearPart {
  base::ConstView dy, weight;  // [n, out], [out, in]
};
// Whether a GPU with one lane may join parts that are neighbours in memory into one product. `apart`: it may not,
// because another rank computes the same lanes together with other lanes.
enum class Neighbours { together, apart };
// dx [n, in] = the sum of dy W over the parts, 3 at most. `lanes` divides each `out`. dx has the working dtype, or f32
// with bf16 operands. A dy may be a range of a tensor's columns.
void linear_backward_input_lanes(tensor::Exec& exec, std::span<const LinearPart> parts, std::int64_t lanes,
                                 base::View dx, Neighbours neighbours = Neighbours::together);

}  // namespace trainyard::kernels

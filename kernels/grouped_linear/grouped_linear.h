// Linear layers of many experts in one call: groups of neighbouring rows, each with a weight of its own. Every number
// has the bits that kernels/linear gives to the group by itself.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <span>

namespace trainyard::kernels {

// Equal views that lie `stride` elements apart, `count` of them: group g has the one at first.data + (g % count) *
// stride.
struct GroupedView {
  base::View first;
  std::int64_t stride = 0, count = 1;
  explicit operator bool() const { return static_cast<bool>(first); }
};

// ranges i32 [G, 2] in the memory of the Exec's device: the first row of each group and how many it has, 0 for none;
// -1: none either, and its weight gradient is another call's. Groups do not overlap. They are read when the work is
// done, not when it is asked for.
struct RowGroups {
  base::View ranges;
  std::int64_t groups() const { return ranges.shape[0]; }
};

// Rows of no group are neither read nor written. dtypes as in kernels/linear. Scratch: plan::grouped_linear_scratch
// for each call.

// y [R, out] = x [R, in] W_g^T + b_g, `in` in lanes as linear_forward_lanes has them.
void grouped_linear_forward(tensor::Exec& exec, const RowGroups& groups, base::View x, const GroupedView& weight,
                            const GroupedView& bias, std::int64_t lanes, base::View y);

struct GroupedPart {
  base::View dy;       // [R, out]; it may be columns of a tensor
  GroupedView weight;  // [out, in]
};
// dx [R, in] = the sum over the parts (2 at most) of dy W_g, as linear_backward_input_lanes makes it.
void grouped_linear_backward_input(tensor::Exec& exec, const RowGroups& groups, std::span<const GroupedPart> parts,
                                   std::int64_t lanes, base::View dx);

// dweight_g [out, in] = dy_g^T x_g and dbias_g [out] (or empty) = column sums of dy_g, both as linear_backward_weight
// makes them; all zeros for a group without rows. Of each group its own view is overwritten; that of a group of -1
// rows is left alone. No two groups have one view.
void grouped_linear_backward_weight(tensor::Exec& exec, const RowGroups& groups, base::View dy, base::View x,
                                    const GroupedView& dweight, const GroupedView& dbias);

}  // namespace trainyard::kernels

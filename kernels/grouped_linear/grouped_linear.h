// Linear layers of many experts in one call: groups of neighbouring rows, each with its own weight. Every number has
// the bits that kernels/linear gives for the group alone.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <span>
#include <type_traits>

namespace trainyard::kernels {

// `count` equal views, `stride` elements apart. Group g uses the view at first.data + (g % count) * stride. View is
// base::View, or base::ConstView for views to read.
template <class View> struct GroupedViewOf {
  View first;
  std::int64_t stride = 0, count = 1;
  explicit operator bool() const { return static_cast<bool>(first); }
  // What may be written may be read.
  template <class Read>
  requires(std::is_same_v<View, base::View>&& std::is_same_v<Read, base::ConstView>) operator GroupedViewOf<Read>()
      const {
    return {.first = first, .stride = stride, .count = count};
  }
};
using GroupedView = GroupedViewOf<base::View>;
using ConstGroupedView = GroupedViewOf<base::ConstView>;

// ranges is i32 [G, 2] in the memory of the Exec's device: the first row of each group and its number of rows. 0 rows
// is an empty group. -1 is an empty group whose weight gradient another call writes. Groups do not overlap. Ranges are
// read when the work runs, not when it is submitted.
struct RowGroups {
  base::ConstView ranges;
  std::int64_t groups() const { return ranges.shape[0]; }
};

// Rows outside all groups are neither read nor written. dtypes are as in kernels/linear. Scratch:
// plan::grouped_linear_scratch_bytes, for weight gradients plan::grouped_linear_weight_scratch_bytes; on a GPU
// plan::gpu_grouped_linear_scratch_bytes, for weight gradients none.

// y = x W_g^T + b_g, with `in` in lanes as in linear_forward_lanes.
struct GroupedLinear {
  RowGroups groups;
  base::ConstView x;           // [R, in]
  ConstGroupedView weight;     // [out, in]
  ConstGroupedView bias = {};  // [out]
  std::int64_t lanes = 1;      // divides `in`
  base::View y;                // [R, out]
};
void grouped_linear_forward(tensor::Exec& exec, const GroupedLinear& linear);

struct GroupedPart {
  base::ConstView dy;       // [R, out]; may be a range of a tensor's columns
  ConstGroupedView weight;  // [out, in]
};
// dx [R, in] = the sum of dy W_g over the parts, 2 at most, as linear_backward_input_lanes computes it.
void grouped_linear_backward_input(tensor::Exec& exec, const RowGroups& groups, std::span<const GroupedPart> parts,
                                   std::int64_t lanes, base::View dx);

// dweight_g [out, in] = dy_g^T x_g; dbias_g [out], or empty, gets the column sums of dy_g. Both are as
// linear_backward_weight computes them, and zeros for an empty group. Each group's own view is overwritten; the view of
// a group with -1 rows is not touched. No two groups share a view.
void grouped_linear_backward_weight(tensor::Exec& exec, const RowGroups& groups, base::ConstView dy, base::ConstView x,
                                    const GroupedView& dweight, const GroupedView& dbias);

}  // namespace trainyard::kernels

// The ordered fold: a left fold of contributions, element by element, in ascending row.
#pragma once

#include "libtrain/base/reduction_order.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <span>

namespace trainyard::kernels {

// pieces [c, n] (rows may be pitched), sum [n]; both f32 or both f64. first: sum = ((p0 + p1) + p2) + ...; next: the
// fold goes on from sum. One rounding for each addition. sum may be a row of pieces only where every element is read
// before it is written: any row, since elements are independent.
void fold(tensor::Exec& exec, base::View pieces, base::View sum, base::ReductionRound round);
// The same of pieces that lie wherever they do: each has the elements of `sum`.
void fold(tensor::Exec& exec, std::span<const void* const> pieces, base::View sum, base::ReductionRound round);

}  // namespace trainyard::kernels

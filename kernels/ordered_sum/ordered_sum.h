// The ordered reduction: a left-to-right sum of contributions, element by element, in ascending row order.
#pragma once

#include "libtrain/base/reduction_order.h"
#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <span>

namespace trainyard::kernels {

// pieces is [c, n], rows may have a pitch; sum is [n]; both f32 or both f64. first: sum = ((p0 + p1) + p2) + ... next:
// the left-to-right sum continues from the present `sum`. Each addition is rounded once. sum may be any row of pieces,
// because elements are independent and each is read before it is written.
void ordered_sum(tensor::Exec& exec, base::ConstView pieces, base::View sum, base::ReductionRound round);
// The same for pieces at any addresses. Each piece has as many elements as `sum`.
void ordered_sum(tensor::Exec& exec, std::span<const void* const> pieces, base::View sum, base::ReductionRound round);

}  // namespace trainyard::kernels

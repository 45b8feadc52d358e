// The mix of what experts and the part beside them make of a token, by two learned coefficients.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// logits T [n, 2], T the accumulation dtype; a, b and the others [n, h] in the working dtype. (c0, c1) = softmax of a
// row's logits (Rajbhandari et al. 2022, "DeepSpeed-MoE", section 4.1.1).
// out = c0 a + c1 b: each product and the sum rounded in T, the result once.
void expert_mix(tensor::Exec& exec, base::View logits, base::View a, base::View b, base::View out);
// da = c0 dout and db = c1 dout, which may be the views of a and b; d_logits T [n, 2] from the sums over channels of
// dout a and dout b, in an order that no number of threads changes.
void expert_mix_backward(tensor::Exec& exec, base::View logits, base::View a, base::View b, base::View dout,
                         base::View d_logits, base::View da, base::View db);

}  // namespace trainyard::kernels

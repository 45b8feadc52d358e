// Mixes, for each token, the output of the experts with the output of the dense part beside them, by two learned
// coefficients.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// logits is [n, 2] in the accumulation dtype T. The other views are [n, h] in the working dtype. (c0, c1) = softmax of
// a row's logits (Rajbhandari et al. 2022, "DeepSpeed-MoE", section 4.1.1). out = c0 a + c1 b: each product and the sum
// are rounded in T, then the result is rounded once.
void expert_mix(tensor::Exec& exec, base::View logits, base::View a, base::View b, base::View out);
// da = c0 dout and db = c1 dout; they may be the views of `a` and b. d_logits, [n, 2] in T, comes from the sums over
// channels of dout a and dout b. The order of these sums does not depend on the number of threads.
void expert_mix_backward(tensor::Exec& exec, base::View logits, base::View a, base::View b, base::View dout,
                         base::View d_logits, base::View da, base::View db);

}  // namespace trainyard::kernels

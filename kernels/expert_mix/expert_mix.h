// Mixes, for each token, the output of the experts with the output of the dense part beside them, by two learned
// coefficients.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// logits is [n, 2] in the accumulation dtype T. The other views are [n, h] in the working dtype. (c0, c1) = softmax of
// a row's logits (Rajbhandari et al. 2022, "DeepSpeed-MoE", section 4.1.1). out = c0 a + c1 b: each product and the sum
// are rounded in T, then the result is rounded once.
void expert_mix(tensor::Exec& exec, base::ConstView logits, base::ConstView a, base::ConstView b, base::View out);
// da = c0 dout and db = c1 dout. d_logits comes from the sums over channels of dout a and dout b. The order of these
// sums does not depend on the number of threads.
struct ExpertMixBackward {
  base::ConstView logits;      // [n, 2] in T
  base::ConstView a, b, dout;  // [n, h]
  base::View d_logits;         // [n, 2] in T
  base::View da, db;           // [n, h]; may be the views of `a` and b
};
void expert_mix_backward(tensor::Exec& exec, const ExpertMixBackward& mix);

}  // namespace trainyard::kernels

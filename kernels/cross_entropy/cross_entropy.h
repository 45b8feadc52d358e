// Softmax and cross entropy of a chunk of tokens, with the gradient, so that logits of a whole batch never exist.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// logits [c, Vs] f32 (f64 for f64); only columns below `vocabulary` count. targets i32 [c], weights u8 [c]. losses f64
// [c]: logsumexp - logit of the target, 0 where the weight is 0. dlogits [c, Vs] in the working dtype, may be the same
// memory as logits when the dtypes agree, empty for evaluation: softmax - onehot, the gradient of the sum of losses; 0
// where the weight is 0 and in the columns from `vocabulary` on.
void cross_entropy_chunk(tensor::Exec& exec, base::View logits, base::View dlogits, std::int64_t vocabulary,
                         base::View targets, base::View weights, base::View losses);

// Overwrites `out`, f64 [1] on the Exec's device, with the sum in ascending order (a GPU: 256 runs of neighbours, each
// in ascending order, then their sums in ascending order).
void sum_losses_into(tensor::Exec& exec, base::View losses, base::View out);
// The same, waited for.
double sum_losses(tensor::Exec& exec, base::View losses);

}  // namespace trainyard::kernels

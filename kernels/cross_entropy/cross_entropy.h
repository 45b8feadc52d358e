// Softmax and cross entropy of a chunk of tokens, with the gradient, so that logits of a whole batch never exist; in
// one go, or in two steps between which ranks that share the vocabulary tell one another what they found.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// logits [c, W] f32 (f64 for f64): the columns [first_column, first_column + W) of the vocabulary, of which those below
// `vocabulary` count; there may be none. targets i32 [c], columns of the whole vocabulary; weights u8 [c].
//
// The W columns are cut into `lanes` equal slices. Of each the maximum m and s, the sum of exp(x - m), are found; two
// neighbours become m = max(ma, mb) and s = sa exp(ma - m) + sb exp(mb - m), and one without columns (s = 0) is passed
// over; in the order of kernels/lane_order.h. So ranks that have neighbouring lanes each find the bits of one rank that
// has them all, where the number of all lanes is a power of two. Where it is not, each lane has to be told on its own.
//
// statistics [p, 3, c] f32 (f64 for f64), dense: m, s and the logit of the target, 0 where that is not here, of p
// pieces: one for all lanes together or one for each. Zeros where the weight is 0.
void cross_entropy_statistics(tensor::Exec& exec, base::View logits, std::int64_t first_column, std::int64_t vocabulary,
                              std::int64_t lanes, base::View targets, base::View weights, base::View statistics);

// statistics: those of all ranks in ascending order, put together in the same order as lanes. losses f64 [c]:
// logsumexp - logit of the target, 0 where the weight is 0; the same on each rank. dlogits [c, W] in the working dtype,
// may be the same memory as logits when the dtypes agree, empty for evaluation: softmax - onehot, the gradient of the
// sum of losses; 0 where the weight is 0 and in the columns from `vocabulary` on.
void cross_entropy_finish(tensor::Exec& exec, base::View logits, std::int64_t first_column, std::int64_t vocabulary,
                          base::View statistics, base::View targets, base::View weights, base::View losses,
                          base::View dlogits);

// Both for one rank that has the whole vocabulary, token by token: the same bits. With one lane the order of sums
// depends on `vocabulary` alone.
void cross_entropy_chunk(tensor::Exec& exec, base::View logits, base::View dlogits, std::int64_t vocabulary,
                         base::View targets, base::View weights, base::View losses, std::int64_t lanes = 1);

// Overwrites `out`, f64 [1] on the Exec's device, with the sum in ascending order (a GPU: 256 runs of neighbours, each
// in ascending order, then their sums in ascending order).
void sum_losses_into(tensor::Exec& exec, base::View losses, base::View out);
// The same, waited for.
double sum_losses(tensor::Exec& exec, base::View losses);

}  // namespace trainyard::kernels

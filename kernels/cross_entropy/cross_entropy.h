// Softmax and cross entropy of a chunk of tokens, with the gradient, so that the logits of a whole batch never exist.
// Either in one call, or in two steps, between which tensor-parallel ranks that share the vocabulary exchange
// statistics.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// The first step. logits is [c, W] in f32 (f64 for f64): columns [first_column, first_column + W) of the vocabulary.
// Columns from `vocabulary` on do not count; there may be no column that counts. targets is i32 [c], columns of the
// whole vocabulary; weights is u8 [c].
//
// The W columns are divided into `lanes` equal slices. Each slice gives its maximum m and s, the sum of exp(x - m).
// Neighbouring slices a and b are joined to m = max(ma, mb) and s = sa exp(ma - m) + sb exp(mb - m), in the order of
// kernels/lane_order.h. A slice without columns (s = 0) is skipped. If the total number of lanes is a power of two,
// ranks with neighbouring lanes get the bits of one rank with all lanes. Otherwise each lane's statistics must be
// exchanged separately.
//
// statistics is [p, 3, c] in f32 (f64 for f64), dense. For each of p pieces it gets m, s and the target's logit, or 0
// where the target is not in that piece. There is one piece for all lanes together, or one for each lane. All three are
// 0 where the weight is 0.
void cross_entropy_statistics(tensor::Exec& exec, base::View logits, std::int64_t first_column, std::int64_t vocabulary,
                              std::int64_t lanes, base::View targets, base::View weights, base::View statistics);

// The second step. `statistics` are the pieces of all ranks in ascending order; they are joined in the order of lanes.
// losses is f64 [c]: logsumexp minus the target's logit, or 0 where the weight is 0. Every rank gets the same losses.
// dlogits is [c, W] in the working dtype: softmax - onehot, the gradient of the sum of losses. It is 0 where the weight
// is 0, and in the columns from `vocabulary` on. It may be the memory of logits if the dtypes agree, and is empty in an
// evaluation.
void cross_entropy_finish(tensor::Exec& exec, base::View logits, std::int64_t first_column, std::int64_t vocabulary,
                          base::View statistics, base::View targets, base::View weights, base::View losses,
                          base::View dlogits);

// Both steps, token by token, for a rank that has the whole vocabulary. The bits are the same. With one lane, the order
// of sums depends on `vocabulary` alone.
void cross_entropy_chunk(tensor::Exec& exec, base::View logits, base::View dlogits, std::int64_t vocabulary,
                         base::View targets, base::View weights, base::View losses, std::int64_t lanes = 1);

// Overwrites `out`, f64 [1] on the Exec's device, with the sum of the losses in ascending order. A GPU adds 256 runs of
// neighbours, each in ascending order, and then the sums of the runs in ascending order.
void sum_losses_into(tensor::Exec& exec, base::View losses, base::View out);
// The same; waits for the result and returns it.
double sum_losses(tensor::Exec& exec, base::View losses);

}  // namespace trainyard::kernels

// Softmax and cross entropy of a chunk of tokens, with the gradient, so that the logits of a whole batch never exist.
// Either in one call, or in two steps, between which tensor-parallel ranks that share the vocabulary exchange
// statistics.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>

namespace trainyard::kernels {

// With a softcap c, the softmax is that of c tanh(x / c), computed from the logits x wherever they are read (Gemma Team
// 2024, "Gemma 2"). Gradients are those of the logits themselves. 0: no cap.
//
// With label smoothing e (Szegedy et al. 2016) the target's share is 1 - e, and each of the V columns of the vocabulary
// has e / V more, the target's column, too. A loss is then logsumexp - (1 - e) x_target - e mean(x), and columns that
// only round the vocabulary up are in neither sum. 0 <= e < 1; 0: none.

// The first step, for columns [first_column, first_column + W) of the vocabulary. Columns from `vocabulary` on do not
// count; there may be no column that counts.
//
// The W columns are divided into `lanes` equal slices. Each slice gives its maximum m and s, the sum of exp(x - m).
// Neighbouring slices a and b are joined to m = max(ma, mb) and s = sa exp(ma - m) + sb exp(mb - m), in the order of
// kernels/lane_order.h. A slice without columns (s = 0) is skipped. If the total number of lanes is a power of two,
// ranks with neighbouring lanes get the bits of one rank with all lanes. Otherwise each lane's statistics must be
// exchanged separately.
//
// For each of p pieces, `statistics` gets m, s and the target's logit, or 0 where the target is not in that piece.
// With label smoothing it also gets the sum of the piece's logits. Each lane has its sum, and the sums are joined like
// the others. There is one piece for all lanes together, or one for each lane. All numbers are 0 where the weight is 0.
// G is f32, or f64 for f64.
struct CrossEntropyStatistics {
  base::ConstView logits;   // [c, W] in G
  base::ConstView targets;  // i32 [c], columns of the whole vocabulary
  base::ConstView weights;  // u8 [c]
  std::int64_t first_column = 0, vocabulary, lanes = 1;
  base::View statistics;  // [p, 3, c] in G, dense; [p, 4, c] with label smoothing
  double softcap = 0, label_smoothing = 0;
};
void cross_entropy_statistics(tensor::Exec& exec, const CrossEntropyStatistics& tokens);

// The second step. The pieces of all ranks are joined in the order of lanes. A loss is logsumexp minus the target's
// logit, or 0 where the weight is 0. Every rank gets the same losses. dlogits is (softmax - onehot) * loss_scale, the
// scaled gradient of the sum of losses; with a power of two the product is exact. It is 0 where the weight is 0, and in
// the columns from `vocabulary` on. With label smoothing the gradient is softmax - (1 - e) onehot - e / V.
struct CrossEntropyFinish {
  base::ConstView logits;      // [c, W] in G
  base::ConstView targets;     // i32 [c], columns of the whole vocabulary
  base::ConstView weights;     // u8 [c]
  base::ConstView statistics;  // as in the first step, the pieces of all ranks in ascending order
  std::int64_t first_column = 0, vocabulary;
  base::View losses;  // f64 [c]
  // [c, W] in the working dtype; may be the memory of logits if the dtypes agree; empty in an evaluation.
  base::View dlogits = {};
  double loss_scale = 1;
  double softcap = 0, label_smoothing = 0;
};
void cross_entropy_finish(tensor::Exec& exec, const CrossEntropyFinish& tokens);

// Both steps, token by token, for a rank that has the whole vocabulary. The bits are the same. With one lane, the order
// of sums depends on `vocabulary` alone.
struct CrossEntropyChunk {
  base::ConstView logits, targets, weights;  // as in the steps
  std::int64_t vocabulary, lanes = 1;
  base::View losses;
  base::View dlogits = {};
  double loss_scale = 1;
  double softcap = 0, label_smoothing = 0;
};
void cross_entropy_chunk(tensor::Exec& exec, const CrossEntropyChunk& tokens);

// Overwrites logits [n, v] in G with c tanh(logits / c).
void cap_logits(tensor::Exec& exec, base::View logits, double softcap);

// Overwrites `out`, f64 [1] on the Exec's device, with the sum of the losses in ascending order. A GPU adds 256 runs of
// neighbours, each in ascending order, and then the sums of the runs in ascending order.
void sum_losses_into(tensor::Exec& exec, base::ConstView losses, base::View out);
// The same; waits for the result and returns it.
double sum_losses(tensor::Exec& exec, base::ConstView losses);

}  // namespace trainyard::kernels

// HeadBlock: final norm where layers do not end with one, the transform of a masked head, logits, cross entropy, in
// fixed chunks of tokens.
#pragma once

#include "libtrain/model/norm_part.h"

#include <optional>
#include <vector>

namespace trainyard::model {

// Training: forward saves the normed residual stream (plan::head_tensors) and leases what is before
// the table only; backward makes
// logits of plan::head_chunk_tokens(device) tokens at a time (of ranks that share the table, each its own columns),
// turns them in place into the loss and its gradient, and from that the residual stream's gradient and the table's.
// Evaluation: forward makes the loss alone, of the same chunks, so both give the same bits.
//
// The table's gradient is the sum over chunks of dlogits^T normed, the first chunk with beta = 0 and the others added
// by the product into the same f32. Decision 2 forbids an accumulating product because it would make the sum depend on
// how micro-batches are cut; the chunks lie inside one micro-batch and are fixed (their size is part of the numerics),
// so no layout, rank or thread moves them.
class HeadBlock : public Block {
 public:
  // `flat_groups`: its own, if it has one; `occurrences`: of that, and of the token table where that is tied
  // (plan::HeadKind).
  HeadBlock(const plan::ModelConfig& model, const std::vector<plan::FlatGroup>& flat_groups,
            const std::vector<plan::Occurrence>& occurrences);
  std::string name() const override { return "head"; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  // Overwrites flow.main with the gradient of the loss sum. Adds to step.loss_sum and step.target_count.
  void backward(Step& step, Flow& flow, Saved& saved) override;

  // Evaluation, one rank: logits of position `at` of each sequence, out [b, stored vocabulary] f32 (f64 with the f64
  // working dtype).
  void logits(Step& step, const Flow& flow, Saved& saved, std::int64_t at, base::View out);

 private:
  struct Loss;
  struct Leases;
  Leases lease(Step& step) const;
  std::vector<plan::SavedTensor> tensors(const Step& step, plan::Pass pass) const;
  void evaluate(Step& step, const Flow& flow, Saved& saved) const;
  struct Pushed;
  std::vector<plan::SavedTensor> transform_tensors(const Step& step) const;
  base::View rows(Step& step, const std::optional<params::Lease>& own, base::View stream, const Pushed& t) const;
  void backward_transform(Step& step, const params::Lease& own, const params::Grads& grads, base::View x,
                          const SavedSet& tensors, base::View d_stream) const;
  void backward_loss(Step& step, base::View d_normed, base::View normed, const Leases& leases, base::View d_table,
                     base::View d_bias);
  plan::ModelConfig model_;
  std::optional<plan::Occurrence> own_, tied_;
  std::optional<NormPart> norm_, transform_norm_;
  int table_ = -1;                                        // index of head.weight; -1 when tied
  int transform_ = -1, transform_bias_ = -1, bias_ = -1;  // of a masked head; -1 where there is none
};

}  // namespace trainyard::model

// HeadBlock: final norm (unless layers end with one), the transform of a masked head, logits and cross entropy, in
// fixed chunks of tokens.
#pragma once

#include "libtrain/model/dropout_site.h"
#include "libtrain/model/norm_part.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace trainyard::model {

// Rows whose logits are wanted, a few at a time.
struct LogitRows {
  std::span<const std::int64_t> rows;  // of the micro-batch's b * T rows, ascending
  base::View
      place;  // [at most plan::head_chunk_tokens(device), stored vocabulary] f32 (f64 with the f64 working dtype)
  // Called when `place` has the logits of rows [first, first + count) of the list.
  std::function<void(std::int64_t first, std::int64_t count)> seen;
};

// Training: forward saves the normed hidden states (plan::head_tensors) and leases only what comes before the table.
// backward makes logits of plan::head_chunk_tokens(device) tokens at a time. Each tensor-parallel rank makes the
// columns of its own vocabulary rows. backward turns the logits in place into the loss and their gradient. From that it
// makes the gradients of the hidden states and of the table. Evaluation: forward makes the loss alone, in the same
// chunks, so both give the same bits.
//
// The table's gradient is the sum over chunks of dlogits^T normed. The first chunk has beta = 0, and the product adds
// the others into the same f32. Decision 2 forbids a product that accumulates over micro-batches, because the sum would
// depend on how they are divided. The chunks lie inside one micro-batch and have a fixed size, which is part of the
// numerics. So no layout, rank or thread moves them.
class HeadBlock : public Block {
 public:
  // `flat_groups`: the head's own flat group, if it has one. `occurrences`: of that group, and of the token table if it
  // is tied (plan::HeadKind).
  HeadBlock(const plan::ModelConfig& model, const std::vector<plan::FlatGroup>& flat_groups,
            const std::vector<plan::Occurrence>& occurrences);
  std::string name() const override { return "head"; }
  void forward(Step& step, Flow& flow, Saved& saved) override;
  // Overwrites flow.main with the gradient of the loss sum. Adds to step.loss_sum and step.target_count.
  void backward(Step& step, Flow& flow, Saved& saved) override;

  // Evaluation, one rank.
  void logits(Step& step, const Flow& flow, Saved& saved, const LogitRows& wanted);

 private:
  struct Loss;
  struct Leases;
  Leases lease(Step& step) const;
  std::vector<plan::SavedTensor> tensors(const Step& step, plan::Pass pass) const;
  void evaluate(Step& step, const Flow& flow, Saved& saved) const;
  struct Pushed;
  std::vector<plan::SavedTensor> transform_tensors(const Step& step) const;
  base::View rows(Step& step, const std::optional<params::Lease>& own, base::View stream, const Pushed& t) const;
  void finish(Step& step, base::View rows) const;               // dropout and scale, in place
  void finish_backward(Step& step, base::View gradient) const;  // the adjoint
  void backward_transform(Step& step, const params::Lease& own, const params::Grads& grads, base::View x,
                          const SavedSet& tensors, base::View d_stream) const;
  void backward_loss(Step& step, base::View d_normed, base::View normed, const Leases& leases, base::View d_table,
                     base::View d_bias);
  plan::ModelConfig model_;
  std::optional<plan::Occurrence> own_, tied_;
  std::optional<NormPart> norm_, transform_norm_;
  DropoutSite dropout_;                                   // behind the final norm
  int table_ = -1;                                        // index of head.weight; -1 when tied
  int transform_ = -1, transform_bias_ = -1, bias_ = -1;  // of a masked head; -1 where there is none
};

}  // namespace trainyard::model

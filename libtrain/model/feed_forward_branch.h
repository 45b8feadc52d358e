// Feed-forward: down(activation(up(normed hidden states))).
#pragma once

#include "libtrain/model/adapters.h"
#include "libtrain/model/branch.h"
#include "libtrain/model/fused_linear.h"
#include "libtrain/plan/blocks/feed_forward.h"

#include <vector>

namespace trainyard::model {

// GPT-2, BERT, OPT: up, GELU or ReLU, down. Llama, Gemma: gate and up as one product, a gated linear unit (Shazeer
// 2020), down. Described by
// plan::FeedForwardKind. Tensor-parallel ranks divide the inner width.
class FeedForwardBranch : public Branch {
 public:
  // `name`: "ffn", or the name of a part beside the experts of a layer (plan::FeedForwardNames).
  explicit FeedForwardBranch(const BranchSpec& spec, const std::string& name = "ffn");
  void forward(Step& step, const params::Lease& lease, const SavedSet& tensors, base::View output) const override;
  void make_again(Step& step, const SavedSet& tensors) const override;
  void backward(Step& step, const params::Lease& lease, const params::Grads& grads, const OutputGradient& gradient,
                const SavedSet& tensors, base::View d_normed) const override;
  // The same with a given gradient of all rows, which may be in d_normed.
  void backward(Step& step, const params::Lease& lease, const params::Grads& grads, base::View d_output,
                const SavedSet& tensors, base::View d_normed) const;
  // Overwrites "inner" with its gradient.
  void input_gradients(Step& step, const params::Lease& lease, base::View d_output, const SavedSet& tensors,
                       base::View d_normed) const override;
  void weight_gradients(Step& step, const params::Grads& grads, base::View d_output,
                        const SavedSet& tensors) const override;

 private:
  void inner_forward(Step& step, const params::Lease& lease, base::View normed, const SavedSet& tensors) const;
  void activate(Step& step, const SavedSet& tensors) const;
  void gate(Step& step, const SavedSet& tensors) const;
  void drop(Step& step, base::View columns) const;
  void down_weight_gradient(Step& step, const params::Grads& grads, base::View d_output, const SavedSet& t) const;
  void backward_to_inner(Step& step, const params::Lease& lease, base::View d_output, const SavedSet& t,
                         base::View d_activated, base::View d_inner) const;
  bool gated() const { return inner_indices_.size() == 2; }
  plan::ModelConfig model_;
  plan::FeedForwardNames names_;
  std::vector<FusedLinear::Indices> inner_indices_;  // up, or gate and up
  FusedLinear inner_;
  int down_weight_, down_bias_;
  DropoutSite dropout_;  // of what the activation makes
  Adapters adapters_;
};

}  // namespace trainyard::model

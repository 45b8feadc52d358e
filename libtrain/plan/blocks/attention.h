// The attention branch: projections, attention over grouped heads, output projection.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

namespace trainyard::plan {

class AttentionKind : public BranchKind {
 public:
  std::string prefix() const override { return "attention"; }
  double residual_dropout(const ModelConfig& model) const override { return model.dropout_attention_residual; }
  bool shared_by_tensor_ranks() const override { return true; }
  void declare(Declaration& flat_group) const override;
  std::vector<SavedTensor> tensors(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  double forward_flops(const ModelConfig& model, const Lengths& lengths) const override;
  bool makes_weight_gradients_apart() const override { return true; }
  std::int64_t input_gradients_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t weight_gradients_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  double apart_flops(const ModelConfig& model) const override;
  double frozen_flops(const ModelConfig& model) const override { return apart_flops(model); }
  std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass, Recompute recompute,
                                      Again again) const override;
  bool skips_unread_output() const override { return true; }
  double output_flops(const ModelConfig& model) const override;
  BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const override;
};

// Where two gradients of a backward pass lie, which the branch and its description both ask. The attended values' one
// lies where the gradient of the branch's input will be, if it has room there.
bool attended_gradient_fits(const ModelConfig& model, const MicroShape& shape);
// The gradient of the branch's output, where it is not the hidden states' own, lies in that of q, k and v on one rank,
// if it has room there.
bool output_gradient_fits(const ModelConfig& model, const MicroShape& shape);

}  // namespace trainyard::plan

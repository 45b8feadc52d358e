// The branch of a decoder's layer that attends to the encoder's output: projections, attention, output projection.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

namespace trainyard::plan {

// Queries are made from the normed hidden states of the target, keys and values from the encoder's output (Vaswani et
// al. 2017, section 3.2.3). No positions enter. Shapes have both lengths.
class CrossAttentionKind : public BranchKind {
 public:
  std::string prefix() const override { return "cross_attention"; }
  double residual_dropout(const ModelConfig& model) const override { return model.dropout_attention_residual; }
  bool shared_by_tensor_ranks() const override { return true; }
  void declare(Declaration& flat_group) const override;
  std::vector<SavedTensor> tensors(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  double forward_flops(const ModelConfig& model, const Lengths& lengths) const override;
  std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass, Recompute recompute,
                                      Again again) const override;
  BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const override;
};

}  // namespace trainyard::plan

// The head: final norm (NormPosition::pre), the transform of a masked head, logits and loss. It has a table of its own,
// or uses the embedding's token table.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

namespace trainyard::plan {

class HeadKind : public BlockKind {
 public:
  std::vector<FlatGroup> flat_groups(const ModelConfig& model, std::int64_t index) const override;
  // Its flat group, if it has one; the token table if tied.
  std::vector<FlatGroupOccurrence> occurrences(const ModelConfig& model) const override;
  BlockAccesses accesses(const ModelConfig& model) const override;
  std::int64_t saved_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  bool shared_by_tensor_ranks() const override { return true; }
  std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                      Recompute recompute) const override;
  double frozen_flops(const ModelConfig& model, const Lengths& lengths) const override;
  double forward_flops(const ModelConfig& model, const Lengths& lengths) const override;
  BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const override;

 private:
  BlockAccesses trained_accesses(const ModelConfig& model) const;  // of a head that is not frozen
};

// What the head saves: norm_tensors. If layers end with a norm it saves only "normed", a copy of the hidden states (an
// evaluation reads the hidden states themselves).
std::vector<SavedTensor> head_tensors(const ModelConfig& model, const MicroShape& shape, Pass pass);
// What a masked head saves above these, in both passes: "inner", the input of the activation, and the training form of
// norm_tensors, whose "input" is the activation's output.
std::vector<SavedTensor> transform_tensors(const ModelConfig& model, const MicroShape& shape);

}  // namespace trainyard::plan

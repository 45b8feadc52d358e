// A layer: the branches that the model names, each with its norms and a residual addition (NormPosition). It has one
// flat group, and the flat groups that branches have of their own.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

namespace trainyard::plan {

class LayerKind : public BlockKind {
 public:
  std::vector<FlatGroup> flat_groups(const ModelConfig& model, std::int64_t index) const override;
  std::vector<FlatGroup> held_flat_groups(const ModelConfig& model, std::int64_t index,
                                          const ExpertShare& experts) const override;
  std::vector<FlatGroupOccurrence> occurrences(const ModelConfig& model) const override;
  BlockAccesses accesses(const ModelConfig& model) const override;
  std::int64_t saved_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  StackBytes selective_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  StackBytes selective_evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  bool makes_weight_gradients_apart(const ModelConfig& model) const override;
  bool shared_by_tensor_ranks() const override { return true; }
  std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                      Recompute recompute) const override;
  std::vector<GroupCall> expert_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                      Recompute recompute) const override;
  double forward_flops(const ModelConfig& model, const Lengths& lengths) const override;
  double recompute_flops(const ModelConfig& model, const Lengths& lengths) const override;
  double frozen_flops(const ModelConfig& model, const Lengths& lengths) const override;
  double apart_flops(const ModelConfig& model, const Lengths& lengths) const override;
  BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const override;
};

// What a layer pushes, in successive groups. In an evaluation, and for tensors that do not stay, only one group exists
// at a time.
//  pre   a group for each branch, with the norm before it
//  inside_post, sandwich
//        a group for each branch, with a copy of the hidden states "normed" or the norm before it; then a group for the
//        norm behind it
//  post  a group for each branch, with the norm of the branch before it, whose output is the branch's input "normed"
//        (for the first branch a copy of the hidden states); then the last norm, whose output is the hidden states
std::vector<std::vector<SavedTensor>> layer_tensors(const ModelConfig& model, const MicroShape& shape, Pass pass);

// "layers.07", or "encoder.layers.07" and "decoder.layers.07" with numbers of their own: as many digits as the last
// layer needs, at least two.
std::string layer_name(const ModelConfig& model, std::int64_t index);

}  // namespace trainyard::plan

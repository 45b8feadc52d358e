// The feed-forward branch: up, activation, down; with a gated activation gate and up.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

namespace trainyard::plan {

// The names of a feed-forward part: the branch "ffn" itself, or a part beside the experts of a layer ("shared",
// "residual"). The tensors of the latter lie among the tensors of the experts.
struct FeedForwardNames {
  explicit FeedForwardNames(const std::string& name)
      : prefix(name), inner(name == "ffn" ? "inner" : "beside_inner"),
        activated(name == "ffn" ? "activated" : "beside_activated") {}
  std::string prefix;
  const char *inner, *activated;  // literals
};

class FeedForwardKind : public BranchKind {
 public:
  explicit FeedForwardKind(const std::string& name = "ffn") : names_(name) {}
  std::string prefix() const override { return names_.prefix; }
  double residual_dropout(const ModelConfig& model) const override { return model.dropout_ffn_residual; }
  bool shared_by_tensor_ranks() const override { return true; }
  void declare(Declaration& flat_group) const override { declare_of(flat_group.model(), flat_group); }
  // For a model that may have another width than the flat group's model.
  void declare_of(const ModelConfig& model, Declaration& flat_group) const;
  std::vector<SavedTensor> tensors(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  double forward_flops(const ModelConfig& model, const Lengths& lengths) const override;
  bool makes_weight_gradients_apart() const override { return true; }
  std::int64_t input_gradients_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t weight_gradients_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  double apart_flops(const ModelConfig& model) const override;
  double frozen_flops(const ModelConfig& model) const override { return apart_flops(model); }
  bool skips_unread_output() const override { return true; }
  double output_flops(const ModelConfig& model) const override;
  BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const override;

 private:
  FeedForwardNames names_;
};

// Whether backward needs a place for the gradient of "activated": where a gate's derivative, dropout, or a low-rank
// adapter on the down projection stands between the product and the gradient of "inner".
bool has_activated_gradient(const ModelConfig& model);

}  // namespace trainyard::plan

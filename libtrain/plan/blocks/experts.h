// The branch "experts": a gate, the experts that it chooses, and the feed-forward part beside them.
#pragma once

#include "libtrain/plan/blocks/expert_kind.h"
#include "libtrain/plan/blocks/feed_forward.h"

#include <optional>

namespace trainyard::plan {

// Replaces "ffn" in a layer that has experts (plan/spec/layer_model.h). It has that branch's prefix, so its norm and
// its dropout have the same names. The experts are a flat group of their own, "layers.03.experts".
class ExpertsKind : public BranchKind {
 public:
  std::string prefix() const override { return "ffn"; }
  double residual_dropout(const ModelConfig& model) const override { return model.dropout_ffn_residual; }
  void declare(Declaration& flat_group) const override;
  bool shared_by_tensor_ranks() const override { return true; }
  bool has_own_flat_group() const override { return true; }
  FlatGroup own_flat_group(const ModelConfig& model, const std::string& layer,
                           const ExpertShare& experts) const override;
  std::vector<SavedTensor> tensors(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass, Recompute recompute,
                                      Again again) const override;
  std::vector<GroupCall> expert_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                      Recompute recompute) const override;
  double forward_flops(const ModelConfig& model, const Lengths& lengths) const override;
  double frozen_flops(const ModelConfig& model) const override { return forward_flops(model, 0); }
  BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const override;
};

// The rows that a rank's experts compute for one micro-batch. If ranks divide the experts, rows stand in slots of one
// size: the capacity, or all tokens without a capacity. There are slots for the rank's experts from its own
// micro-batch, and as many from every data-parallel rank with other experts. If only data-parallel ranks divide experts
// without a capacity, these are the rows of one dispatch round (plan/blocks/expert_rounds.h).
ExpertRows expert_rows_of(const ModelConfig& of_layer, const MicroShape& shape, Pass pass);
// The rows of all experts for the tokens of one micro-batch.
std::int64_t result_rows_of(const ModelConfig& of_layer, const MicroShape& shape, Pass pass);
// The rows of a slot; 0: rows are not in slots.
std::int64_t expert_slot_rows(const ModelConfig& of_layer, const MicroShape& shape, Pass pass);

// The feed-forward part that every token passes beside the experts: shared experts, or the part of a residual mix.
std::optional<FeedForwardKind> beside_experts(const ModelConfig& of_layer);

// "05": as many digits as the last expert needs, at least two.
std::string expert_name(std::int64_t count, std::int64_t index);

// Whether the gate reads its input in the accumulation dtype: if that differs from the working dtype, or noise is
// applied.
bool gate_widens(const ModelConfig& of_layer, const MicroShape& shape, Pass pass);

}  // namespace trainyard::plan

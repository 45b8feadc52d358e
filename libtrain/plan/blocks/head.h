// The head: final norm (NormPosition::pre), the transform of a masked head, logits, loss; with a table of its own, or
// the token table of the embedding.
#pragma once

#include "libtrain/plan/block_kind.h"

namespace trainyard::plan {

class HeadKind : public BlockKind {
 public:
  std::vector<FlatGroup> flat_groups(const ModelConfig& model, std::int64_t index) const override;
  std::vector<FlatGroupOccurrence> occurrences(
      const ModelConfig& model) const override;  // its flat group, if it has one; the token table when tied
  BlockAccesses accesses(const ModelConfig& model) const override;
  std::int64_t saved_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  bool shared_by_tensor_ranks() const override { return true; }
  std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                      Recompute recompute) const override;
  double forward_flops(const ModelConfig& model, std::int64_t sequence) const override;
};

// What it saves: norm_tensors, or where layers end with a norm "normed" alone, a copy of the stream (an evaluation
// reads the stream itself).
std::vector<SavedTensor> head_tensors(const ModelConfig& model, const MicroShape& shape, Pass pass);
// Above them, of a masked head: "inner", what the activation is taken of, and norm_tensors of training, whose "input"
// is the activation's output, in both passes.
std::vector<SavedTensor> transform_tensors(const ModelConfig& model, const MicroShape& shape);
// Has the head a bias of its logits?
bool has_vocabulary_bias(const ModelConfig& model);

}  // namespace trainyard::plan

// The bridge of an encoder-decoder model: the end of the encoder, and the decoder's embedding.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"

namespace trainyard::plan {

// Between the encoder's layers and the decoder's. It makes the encoder's output, which all layers of the decoder attend
// to: the final norm of its hidden states, if the model has one. And it begins the decoder's hidden states: the rows of
// the embedding's token table, and positions of the decoder's own. A table of relative positions lies here too, but
// only the decoder's layers use it. Its shape has both lengths.
class BridgeKind : public BlockKind {
 public:
  std::vector<FlatGroup> flat_groups(const ModelConfig& model, std::int64_t index) const override;
  // The norm, the token table, the positions, as far as the model has them.
  std::vector<FlatGroupOccurrence> occurrences(const ModelConfig& model) const override;
  BlockAccesses accesses(const ModelConfig& model) const override;  // backward: the tables, then the norm
  std::int64_t saved_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  bool shared_by_tensor_ranks() const override { return true; }
  std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                      Recompute recompute) const override;
  double forward_flops(const ModelConfig&, const Lengths&) const override { return 0; }
  BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const override;
};

// What the final norm saves of the encoder's hidden states, which it overwrites. Empty without a norm.
std::vector<SavedTensor> bridge_tensors(const ModelConfig& model, const MicroShape& shape, Pass pass);

}  // namespace trainyard::plan

// The embedding: the token table, and learned positions, segments and a norm of the sum if the model has them. Each is
// a flat group. With relative positions it also has the table of the encoder's layers.
#pragma once

#include "libtrain/plan/blocks/block_kind.h"
#include "libtrain/plan/spec/conditions.h"

namespace trainyard::plan {

inline constexpr const char* token_table_flat_group = "embedding.tokens";

class EmbeddingKind : public BlockKind {
 public:
  std::vector<FlatGroup> flat_groups(const ModelConfig& model, std::int64_t index) const override;
  std::vector<FlatGroupOccurrence> occurrences(const ModelConfig& model) const override;
  BlockAccesses accesses(const ModelConfig& model) const override;  // backward leases only the norm
  std::int64_t saved_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  std::int64_t evaluation_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  // With sequence parallelism, all rows gathered; also the segment of each row.
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  bool makes_weight_gradients_apart(const ModelConfig& model) const override { return !has_adapter(model); }
  bool shared_by_tensor_ranks() const override { return true; }
  std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                      Recompute recompute) const override;
  double forward_flops(const ModelConfig&, const Lengths&) const override { return 0; }
  BlockWork work(const ModelConfig& model, const MicroShape& shape, AttentionKernels kernels) const override;
};

// What the norm saves of its input, and the place of its weight gradients if these are computed apart. The norm's
// output is the hidden states. Empty without a norm.
std::vector<SavedTensor> embedding_tensors(const ModelConfig& model, const MicroShape& shape, Pass pass);

}  // namespace trainyard::plan

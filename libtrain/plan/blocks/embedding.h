// The embedding: the token table, and the learned positions where the model has them; a unit each.
#pragma once

#include "libtrain/plan/block_kind.h"

namespace trainyard::plan {

inline constexpr const char* token_table_unit = "embedding.tokens";

class EmbeddingKind : public BlockKind {
 public:
  std::vector<Unit> units(const ModelConfig& model, std::int64_t index) const override;
  BlockAccesses accesses(const ModelConfig& model) const override;  // backward leases nothing
  std::int64_t saved_bytes(const ModelConfig&, const MicroShape&) const override { return 0; }
  std::int64_t evaluation_bytes(const ModelConfig&, const MicroShape&) const override { return 0; }
  // All rows, where ranks share those of the stream.
  std::int64_t forward_workspace_bytes(const ModelConfig& model, const MicroShape& shape, Pass) const override;
  std::int64_t backward_workspace_bytes(const ModelConfig& model, const MicroShape& shape) const override;
  bool makes_weight_gradients_apart(const ModelConfig&) const override { return true; }  // it makes no others
  bool shared_by_tensor_ranks() const override { return true; }
  std::vector<GroupCall> tensor_calls(const ModelConfig& model, const MicroShape& shape, Pass pass,
                                      Recompute recompute) const override;
  double forward_flops(const ModelConfig&, std::int64_t) const override { return 0; }
};

}  // namespace trainyard::plan

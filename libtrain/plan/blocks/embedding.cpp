// The tables of the embedding.
#include "libtrain/plan/blocks/embedding.h"

#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/products.h"

namespace trainyard::plan {

std::vector<Unit> EmbeddingKind::units(const ModelConfig& m, std::int64_t) const {
  std::vector<Unit> all;
  Declaration tokens(m, token_table_unit, Part::input);
  tokens.vocabulary_table("weight", Decay::no);
  all.push_back(tokens.take());
  if (m.positions != Positions::learned) return all;
  Declaration positions(m, "embedding.positions", Part::input);
  positions.positions_table("weight");
  all.push_back(positions.take());
  return all;
}

std::int64_t EmbeddingKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass) const {
  return Products(m, s).gathered(m.hidden);
}

std::int64_t EmbeddingKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  return Products(m, s).gathered(m.hidden);
}

std::vector<GroupCall> EmbeddingKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                                   Recompute) const {
  Crossings calls(m, s);
  calls.merge();
  if (pass == Pass::train) calls.all_rows();
  return calls.take();
}

BlockAccesses EmbeddingKind::accesses(const ModelConfig& m) const {
  auto a = BlockKind::accesses(m);
  std::erase_if(a.backward, [](const auto& step) { return step.kind == Access::Kind::lease; });
  return a;
}

}  // namespace trainyard::plan

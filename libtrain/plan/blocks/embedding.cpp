// The tables of the embedding.
#include "libtrain/plan/blocks/embedding.h"

#include "libtrain/base/aligned.h"
#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/norm.h"
#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

// The segment numbers of rows.
std::int64_t segments_bytes(const ModelConfig& m, std::int64_t rows) {
  return has_segment_table(m) ? base::aligned(rows * 4) : 0;
}

}  // namespace

std::vector<SavedTensor> embedding_tensors(const ModelConfig& m, const MicroShape& s, Pass pass) {
  if (!m.embedding_norm) return {};
  auto all = only(norm_tensors(m, s, pass), Stays::always);
  const bool apart = s.weight_gradients == WeightGradients::apart && !has_adapter(m);
  if (pass == Pass::train && apart) all.push_back(norm_gradients_tensor(m, s));
  return all;
}

std::vector<FlatGroup> EmbeddingKind::flat_groups(const ModelConfig& m, std::int64_t) const {
  std::vector<FlatGroup> all;
  Declaration tokens(m, token_table_flat_group, Part::input);
  tokens.vocabulary_table("weight", Decay::no);
  all.push_back(tokens.take());
  if (has_position_table(m)) {
    Declaration positions(m, has_encoder(m) ? "encoder.positions" : "embedding.positions", Part::input);
    positions.positions_table("weight");
    all.push_back(positions.take());
  }
  if (has_segment_table(m)) {
    Declaration segments(m, "embedding.segments", Part::input);
    segments.parameter("weight", {m.segments, m.hidden}, {Init::Kind::normal, 0.02}, Decay::no);  // as positions
    all.push_back(segments.take());
  }
  if (m.embedding_norm) {
    Declaration norm(m, "embedding", Part::input);
    norm.norm("norm");
    all.push_back(norm.take());
  }
  if (has_relative_positions(m)) {
    Declaration positions(m, encoder_relative_positions, Part::input);
    positions.relative_positions_table("weight");
    all.push_back(positions.take());
  }
  return all;
}

// No token is looked up in a table of relative positions: layers borrow it.
std::vector<FlatGroupOccurrence> EmbeddingKind::occurrences(const ModelConfig& m) const {
  auto all = BlockKind::occurrences(m);
  if (has_relative_positions(m)) all.pop_back();
  return all;
}

std::int64_t EmbeddingKind::saved_bytes(const ModelConfig& m, const MicroShape& s) const {
  return total_bytes(embedding_tensors(m, s, Pass::train));
}

std::int64_t EmbeddingKind::evaluation_bytes(const ModelConfig& m, const MicroShape& s) const {
  return total_bytes(embedding_tensors(m, s, Pass::evaluate));
}

std::int64_t EmbeddingKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass) const {
  return std::max(Products(m, s).gathered(m.hidden), segments_bytes(m, s.own_rows()));
}

std::int64_t EmbeddingKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  if (has_adapter(m)) return 0;  // frozen: backward does nothing
  return std::max(Products(m, s).gathered(m.hidden) + segments_bytes(m, s.rows()),
                  m.embedding_norm ? norm_workspace_bytes(m, s) : 0);
}

std::vector<GroupCall> EmbeddingKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                                   Recompute) const {
  Crossings calls(m, s);
  calls.merge();
  if (pass != Pass::train || has_adapter(m)) return calls.take();
  calls.all_rows();
  if (m.embedding_norm) calls.norm_gradients();
  return calls.take();
}

// The norm is the last flat group, and the first in backward.
BlockAccesses EmbeddingKind::accesses(const ModelConfig& m) const {
  using Kind = Access::Kind;
  auto a = BlockKind::accesses(m);
  if (has_adapter(m)) a.backward.clear();
  if (has_adapter(m)) return a;
  std::erase_if(a.backward, [](const auto& step) { return step.kind == Kind::lease; });
  if (!m.embedding_norm) return a;
  const auto norm = a.backward.back();
  a.backward.pop_back();
  a.backward.insert(a.backward.begin(), {{Kind::lease, norm.occurrence}, norm});
  return a;
}

// Rows of tables are read, and their gradients added in the accumulation dtype.
BlockWork EmbeddingKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels) const {
  const double row = static_cast<double>(s.rows()) * static_cast<double>(m.hidden),
               wide = static_cast<double>(base::size_of(s.accumulation())), e = static_cast<double>(s.element_bytes());
  BlockWork out;
  out.forward.bytes = 3 * e * row;
  if (!has_adapter(m)) out.backward.bytes = (e + 2 * wide) * row;
  return out;
}

}  // namespace trainyard::plan

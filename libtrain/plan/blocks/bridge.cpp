// What the bridge declares, saves and needs.
#include "libtrain/plan/blocks/bridge.h"

#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/embedding.h"
#include "libtrain/plan/blocks/norm.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>

namespace trainyard::plan {

std::vector<SavedTensor> bridge_tensors(const ModelConfig& m, const MicroShape& s, Pass pass) {
  return has_final_norm(m) ? only(norm_tensors(m, s.of_source(), pass), Stays::always) : std::vector<SavedTensor>();
}

std::vector<FlatGroup> BridgeKind::flat_groups(const ModelConfig& m, std::int64_t) const {
  std::vector<FlatGroup> all;
  if (has_final_norm(m)) {
    Declaration norm(m, "encoder", Part::bridge);
    norm.norm("norm");
    all.push_back(norm.take());
  }
  if (has_position_table(m)) {
    Declaration positions(m, "decoder.positions", Part::bridge);
    positions.positions_table("weight");
    all.push_back(positions.take());
  }
  if (has_relative_positions(m)) {
    Declaration positions(m, decoder_relative_positions, Part::bridge);
    positions.relative_positions_table("weight");
    all.push_back(positions.take());
  }
  return all;
}

std::vector<FlatGroupOccurrence> BridgeKind::occurrences(const ModelConfig& m) const {
  std::vector<FlatGroupOccurrence> all;
  if (has_final_norm(m)) all.push_back({0, {}});
  all.push_back({-1, token_table_flat_group});
  if (has_position_table(m)) all.push_back({has_final_norm(m) ? 1 : 0, {}});
  return all;
}

BlockAccesses BridgeKind::accesses(const ModelConfig& m) const {
  using Kind = Access::Kind;
  const auto n = static_cast<int>(occurrences(m).size());
  BlockAccesses a;
  for (int occurrence = 0; occurrence < n; ++occurrence)
    a.forward.push_back(occurrence), a.evaluation.push_back(occurrence);
  for (int occurrence = has_final_norm(m) ? 1 : 0; occurrence < n; ++occurrence)
    a.backward.push_back({Kind::commit, occurrence});
  if (has_final_norm(m)) a.backward.push_back({Kind::lease, 0}), a.backward.push_back({Kind::commit, 0});
  return a;
}

std::int64_t BridgeKind::saved_bytes(const ModelConfig& m, const MicroShape& s) const {
  return total_bytes(bridge_tensors(m, s, Pass::train)) + EmbeddingKind().saved_bytes(m, s);
}

std::int64_t BridgeKind::evaluation_bytes(const ModelConfig& m, const MicroShape& s) const {
  return std::max(total_bytes(bridge_tensors(m, s, Pass::evaluate)), EmbeddingKind().evaluation_bytes(m, s));
}

std::int64_t BridgeKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass pass) const {
  return EmbeddingKind().forward_workspace_bytes(m, s, pass);
}

std::int64_t BridgeKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  return std::max(EmbeddingKind().backward_workspace_bytes(m, s),
                  has_final_norm(m) ? norm_workspace_bytes(m, s.of_source()) : 0);
}

std::vector<GroupCall> BridgeKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                                Recompute recompute) const {
  auto all = EmbeddingKind().tensor_calls(m, s, pass, recompute);
  if (pass != Pass::train || !has_final_norm(m)) return all;
  const auto source = s.of_source();
  for (const auto& call : Crossings(m, source).norm_gradients().take()) all.push_back(call);
  return all;
}

// Beside the embedding's: the norm reads the encoder's hidden states and writes them twice; backward reads the sum of
// the output's gradients, and the norm reads its input and two gradients.
BlockWork BridgeKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels kernels) const {
  auto out = EmbeddingKind().work(m, s, kernels);
  const double row = static_cast<double>(s.own_source_rows()) * static_cast<double>(m.hidden),
               wide = static_cast<double>(base::size_of(s.accumulation())), e = static_cast<double>(s.element_bytes());
  out.forward.bytes += 4 * e * row;
  out.backward.bytes += (wide + 4 * e) * row;
  return out;
}

}  // namespace trainyard::plan

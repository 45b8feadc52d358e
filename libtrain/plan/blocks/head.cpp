// What the head declares, saves and needs.
#include "libtrain/plan/blocks/head.h"

#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/embedding.h"
#include "libtrain/plan/blocks/norm.h"
#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

// If layers end with a norm, the head needs none.
bool has_flat_group(const ModelConfig& m) { return has_final_norm(m) || has_masked_head(m) || !m.tied; }

std::int64_t head_chunk_rows(const MicroShape& s) { return std::min(s.rows(), head_chunk_tokens(s.device)); }

// Buffers of the loss: losses of rows, this rank's logits of a chunk, their gradient if its dtype is narrower, and
// their statistics. Ranks that share a vocabulary also have the statistics of all ranks.
std::int64_t loss_buffers(const ModelConfig& m, const MicroShape& s, Pass pass) {
  const Widths w(m, s.tensor);
  const auto wide = base::size_of(s.accumulation()), c = head_chunk_rows(s), logits = c * w.vocabulary;
  const bool narrow = pass == Pass::train && base::is_narrow(s.dtype);
  const bool bias = has_vocabulary_bias(m);
  return base::aligned(s.rows() * 8) + base::aligned(logits * wide) +
         (bias && base::is_narrow(s.dtype) ? base::aligned(w.vocabulary * wide) : 0) +
         (bias && pass == Pass::train && !has_adapter(m) ? base::aligned(c * s.element_bytes()) : 0) +
         (narrow ? base::aligned(logits * s.element_bytes()) : 0) +
         (s.tensor > 1 ? cross_entropy_shared_scratch_bytes(c, s.tensor, w.partials * loss_statistics(s, pass), wide)
                       : 0);
}

// For the rank's rows of hidden states.
std::int64_t transform_product(const ModelConfig& m, const MicroShape& s) {
  return Products(m, s).product(s.own_rows(), m.hidden, m.hidden, Products::Result::working);
}

std::int64_t chunk_product(const ModelConfig& m, const MicroShape& s) {
  return Products(m, s).product(head_chunk_rows(s), Widths(m, s.tensor).vocabulary, m.hidden,
                                Products::Result::accumulation);
}

}  // namespace

std::vector<SavedTensor> head_tensors(const ModelConfig& m, const MicroShape& s, Pass pass) {
  if (has_final_norm(m)) return norm_tensors(m, s, pass);
  if (pass == Pass::evaluate) return {};
  return {{"normed", s.dtype, s.own_rows(), m.hidden}};
}

std::vector<SavedTensor> transform_tensors(const ModelConfig& m, const MicroShape& s) {
  if (!has_masked_head(m)) return {};
  std::vector<SavedTensor> all{{"inner", s.dtype, s.own_rows(), m.hidden}};
  for (const auto& t : norm_tensors(m, s, Pass::train)) all.push_back(t);
  return all;
}

std::vector<FlatGroup> HeadKind::flat_groups(const ModelConfig& m, std::int64_t) const {
  std::vector<FlatGroup> all;
  if (!has_flat_group(m)) return all;
  Declaration d(m, "head", Part::output);
  if (has_final_norm(m)) d.norm("norm");
  if (has_masked_head(m)) {
    d.weight("transform.weight", m.hidden, m.hidden);
    d.bias("transform.bias", m.hidden);
    d.norm("transform_norm");
  }
  if (!m.tied) d.vocabulary_table("weight", Decay::yes);
  if (has_vocabulary_bias(m))
    d.parameter("bias", {m.vocabulary}, {Init::Kind::zeros, 0}, Decay::no, ShardedDim{0, Axis::tensor});
  all.push_back(d.take());
  if (has_vocabulary_bias(m)) all.back().parameters.back().stored = {m.stored_vocabulary()};  // as the table's rows
  return all;
}

std::vector<FlatGroupOccurrence> HeadKind::occurrences(const ModelConfig& m) const {
  std::vector<FlatGroupOccurrence> all;
  if (has_flat_group(m)) all.push_back({0, {}});
  if (m.tied) all.push_back({-1, token_table_flat_group});
  return all;
}

// Training computes no logits before backward, so forward needs only what precedes them. Backward finishes the table's
// gradient first.
BlockAccesses HeadKind::accesses(const ModelConfig& m) const {
  auto all = trained_accesses(m);
  if (has_adapter(m)) std::erase_if(all.backward, [](const auto& step) { return step.kind == Access::Kind::commit; });
  return all;
}

BlockAccesses HeadKind::trained_accesses(const ModelConfig& m) const {
  using Kind = Access::Kind;
  if (!has_final_norm(m) && !has_masked_head(m)) return {{}, {0}, {{Kind::lease, 0}, {Kind::commit, 0}}};
  if (!m.tied) return BlockKind::accesses(m);
  return {{0}, {0, 1}, {{Kind::lease, 0}, {Kind::lease, 1}, {Kind::commit, 1}, {Kind::commit, 0}}};
}

std::int64_t HeadKind::saved_bytes(const ModelConfig& m, const MicroShape& s) const {
  return total_bytes(head_tensors(m, s, Pass::train)) + total_bytes(transform_tensors(m, s));
}

std::int64_t HeadKind::evaluation_bytes(const ModelConfig& m, const MicroShape& s) const {
  return total_bytes(head_tensors(m, s, Pass::evaluate)) + total_bytes(transform_tensors(m, s));
}

std::int64_t HeadKind::forward_workspace_bytes(const ModelConfig& m, const MicroShape& s, Pass pass) const {
  const auto transform = has_masked_head(m) ? transform_product(m, s) : 0;
  if (pass == Pass::train) return transform;
  return std::max(transform, Products(m, s).gathered(m.hidden) + loss_buffers(m, s, pass) + chunk_product(m, s));
}

std::int64_t HeadKind::backward_workspace_bytes(const ModelConfig& m, const MicroShape& s) const {
  const Products p(m, s);
  const auto n = s.rows(), c = head_chunk_rows(s), v = Widths(m, s.tensor).vocabulary, last = n % c == 0 ? c : n % c;
  auto most = chunk_product(m, s);
  for (auto rows : {c, last})
    most = std::max({most, p.lane_product(rows, m.hidden, {v}),
                     has_adapter(m) ? 0 : p.product(v, m.hidden, rows, Products::Result::accumulation)});
  if (has_vocabulary_bias(m) && !has_adapter(m))
    for (auto rows : {c, last}) most = std::max(most, p.product(1, v, rows, Products::Result::accumulation));
  most += p.gathered(m.hidden) + p.partial(m.hidden) + loss_buffers(m, s, Pass::train);
  if (has_final_norm(m) || has_masked_head(m)) most = std::max(most, norm_workspace_bytes(m, s));
  if (!has_masked_head(m)) return most;
  return std::max(
      most,
      p.stream(m.hidden) +
          std::max(has_adapter(m) ? 0 : 2 * p.gathered(m.hidden) + p.weight_gradient(m.hidden, m.hidden, has_biases(m)),
                   transform_product(m, s)));
}

std::vector<GroupCall> HeadKind::tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass, Recompute) const {
  Crossings calls(m, s);
  calls.all_rows().loss_statistics(pass);
  if (pass == Pass::train) calls.add_up();
  if (pass == Pass::train && has_final_norm(m)) calls.norm_gradients();
  if (pass == Pass::train && has_masked_head(m)) calls.norm_gradients();
  if (pass == Pass::train && has_masked_head(m) && !has_adapter(m)) calls.all_rows().all_rows();
  return calls.take();
}

// V is the logical vocabulary.
double HeadKind::forward_flops(const ModelConfig& m, const Lengths&) const {
  const auto transform = static_cast<double>(has_masked_head(m) ? m.hidden : 0);
  return 2 * static_cast<double>(m.hidden) * (static_cast<double>(m.vocabulary) + transform);
}

double HeadKind::frozen_flops(const ModelConfig& m, const Lengths& lengths) const {
  return has_adapter(m) ? forward_flops(m, lengths) : 0;
}

// Logits are written in the accumulation dtype and read for their maximum, their sum and their gradient, which is
// written and read by two products.
BlockWork HeadKind::work(const ModelConfig& m, const MicroShape& s, AttentionKernels) const {
  const auto vocabulary = Widths(m, s.tensor).vocabulary;
  BlockWork out;
  out.linear(s.rows(), vocabulary, m.hidden);
  if (has_masked_head(m)) out.linear(s.rows(), m.hidden, m.hidden);
  const double logits = static_cast<double>(s.rows()) * static_cast<double>(vocabulary),
               wide = static_cast<double>(base::size_of(s.accumulation())), e = static_cast<double>(s.element_bytes()),
               row = static_cast<double>(s.own_rows()) * static_cast<double>(m.hidden);
  out.forward.bytes = logits * 3 * wide + 2 * e * row;
  out.backward.bytes = logits * (wide + e) + 3 * e * row;
  if (has_adapter(m)) out.weights = {};
  return out;
}

}  // namespace trainyard::plan

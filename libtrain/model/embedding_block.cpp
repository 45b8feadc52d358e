// The embedding: x = dropout(scale tokens[t] + positions[p]) (Radford et al. 2019, section 2.3), without positions if
// attention is rotary. BERT (Devlin et al. 2019): x = dropout(norm(tokens[t] + positions[p] + segments[s])).
#include "libtrain/model/embedding_block.h"

#include "kernels/cast/cast.h"
#include "kernels/embedding/embedding.h"
#include "libtrain/model/sublayer.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/blocks/embedding.h"
#include "libtrain/plan/spec/conditions.h"

namespace trainyard::model {

namespace {

// Segment indices of `rows` tokens, all 0, in scratch of the caller's scope.
base::View first_segments(Step& step, std::int64_t rows) {
  const auto words = step.exec.scratch().allocate(base::DType::f32, {rows});
  kernels::fill(step.exec, words, 0);  // 0.0 has the bits of the integer 0
  return base::View(words.data, base::DType::i32, {rows}, words.device);
}

}  // namespace

EmbeddingBlock::EmbeddingBlock(const plan::ModelConfig& model, const std::vector<plan::FlatGroup>& flat_groups,
                               const std::vector<plan::Occurrence>& occurrences, const std::string& site)
    : model_(model), tokens_(occurrences.at(0)), dropout_(site, model.dropout_embedding) {
  std::size_t next = 1;
  if (plan::has_position_table(model)) positions_ = occurrences.at(next++);
  if (plan::has_segment_table(model)) segments_ = occurrences.at(next++);
  if (!model.embedding_norm) return;
  norm_.emplace(model, flat_groups.at(next), "norm");
  normed_ = occurrences.at(next);
}

std::vector<plan::SavedTensor> EmbeddingBlock::tensors(const Step& step, plan::Pass pass) const {
  return plan::embedding_tensors(model_, shape_of(step), pass);
}

void EmbeddingBlock::forward(Step& step, Flow& flow, Saved& saved) {
  const auto tokens = step.store->lease(tokens_);
  const auto leased = [&](const std::optional<plan::Occurrence>& occurrence) {
    std::optional<params::Lease> lease;
    if (occurrence) lease.emplace(step.store->lease(*occurrence));
    return lease;
  };
  const auto positions = leased(positions_), segments = leased(segments_), norm = leased(normed_);
  const auto position_table = positions ? used_positions(positions->weight(0)) : base::View{};
  if (step.collectives->ranks() == 1)
    kernels::embedding_forward(step.exec, {.tokens = step.micro.tokens,
                                           .positions = step.micro.positions,
                                           .table = tokens.weight(0),
                                           .position_table = position_table,
                                           .out = flow.main,
                                           .scale = model_.embedding_scale});
  else look_up_together(step, tokens.weight(0), position_table, flow.main);
  if (segments) {
    tensor::ArenaScope scope(step.exec.scratch());
    kernels::embedding_add(step.exec, first_segments(step, flow.main.rows()), segments->weight(0), flow.main);
  }
  const PassTensors t(tensors(step, step.pass), step, saved);
  if (norm_) norm_->forward(step, *norm, flow.main, *t);
  if (dropout_.active(step)) kernels::dropout_forward(step.exec, dropout_.of(step), flow.main, flow.main);
}

// The rows of the position table from position 0 on.
base::View EmbeddingBlock::used_positions(base::View table) const {
  return table.row_range(model_.position_offset, model_.context);
}

// Lookup in a sharded table: the row of a token comes from the rank that holds it.
void EmbeddingBlock::look_up_together(Step& step, base::View table, base::View position_table, base::View out) const {
  const auto& collectives = *step.collectives;
  const auto n = step.micro.tokens.count();
  tensor::ArenaScope scope(step.exec.scratch());
  const auto values = collectives.sequence_parallel() ? step.exec.scratch().allocate(out.dtype, {n, out.cols()}) : out;
  kernels::embedding_lookup(step.exec, {.tokens = step.micro.tokens,
                                        .table = table,
                                        .first_row = collectives.rank() * table.rows(),
                                        .all_rows = collectives.ranks() * table.rows(),
                                        .out = values,
                                        .scale = model_.embedding_scale});
  collectives.merge(values, out);
  if (!position_table) return;
  kernels::embedding_add(step.exec, step.micro.positions.elements(collectives.first_row(n), out.rows()), position_table,
                         out);
}

// Nobody reads the gradient of what frozen tables give.
void EmbeddingBlock::backward(Step& step, Flow& flow, Saved& saved) {
  if (plan::has_adapter(model_)) {
    if (norm_) SavedSet::pop(saved, tensors(step, plan::Pass::train));
    return;
  }
  if (dropout_.active(step)) kernels::dropout_backward(step.exec, dropout_.of(step), flow.main, flow.main);
  if (norm_) {
    const auto lease = step.store->lease(*normed_);
    auto grads = step.store->grads(*normed_);
    const auto t = SavedSet::pop(saved, tensors(step, plan::Pass::train));
    norm_->backward(step, lease, norm_->gradients(grads), flow.main, t, flow.main);
    grads.commit();
  }
  table_gradients(step, flow.main);
}

void EmbeddingBlock::input_gradients(Step& step, Flow& flow, Saved& saved) {
  if (plan::has_adapter(model_)) return backward(step, flow, saved);
  if (dropout_.active(step)) kernels::dropout_backward(step.exec, dropout_.of(step), flow.main, flow.main);
  if (!norm_) return;
  const auto lease = step.store->lease(*normed_);
  const auto t = SavedSet::keep(saved, tensors(step, plan::Pass::train));
  norm_->backward(step, lease, norm_->gradients(t), flow.main, t, flow.main);
}

void EmbeddingBlock::weight_gradients(Step& step, Flow& flow, Saved& saved) {
  if (plan::has_adapter(model_)) return;
  if (norm_) {
    auto grads = step.store->grads(*normed_);
    hand_over_gradients(step, *norm_, SavedSet::pop(saved, tensors(step, plan::Pass::train)), grads);
    grads.commit();
  }
  table_gradients(step, flow.main);
}

void EmbeddingBlock::table_gradients(Step& step, base::View d_sum) const {
  tensor::ArenaScope scope(step.exec.scratch());
  const auto gradient = all_rows(step, d_sum);
  auto tokens = step.store->grads(tokens_);
  const auto table = tokens.gradient(0);
  kernels::embedding_backward(step.exec, step.micro.tokens, step.collectives->rank() * table.rows(), gradient, table,
                              model_.embedding_scale);
  tokens.commit();
  if (positions_) {
    auto positions = step.store->grads(*positions_);
    kernels::embedding_backward(step.exec, step.micro.positions, -model_.position_offset, gradient,
                                positions.gradient(0));
    positions.commit();
  }
  if (!segments_) return;
  auto segments = step.store->grads(*segments_);
  kernels::embedding_backward(step.exec, first_segments(step, gradient.rows()), 0, gradient, segments.gradient(0));
  segments.commit();
}

}  // namespace trainyard::model

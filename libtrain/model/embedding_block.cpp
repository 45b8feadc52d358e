// The embedding: x = dropout(tokens[t] + positions[p]) (Radford et al. 2019, section 2.3; no positions with rotary
// attention).
#include "libtrain/model/embedding_block.h"

#include "kernels/embedding/embedding.h"
#include "libtrain/model/saved.h"

namespace trainyard::model {

EmbeddingBlock::EmbeddingBlock(const plan::ModelConfig& model, const std::vector<plan::Use>& uses)
    : tokens_(uses.at(0)), dropout_("embedding", model.dropout_embedding) {
  if (uses.size() > 1) positions_ = uses[1];
}

void EmbeddingBlock::forward(Step& step, Flow& flow, Saved&) {
  const auto tokens = step.store->lease(tokens_);
  std::optional<params::Lease> positions;
  if (positions_) positions.emplace(step.store->lease(*positions_));
  const auto position_table = positions ? positions->weight(0) : base::View{};
  if (step.edges->ranks() == 1)
    kernels::embedding_forward(step.exec, step.micro.tokens, step.micro.positions, tokens.weight(0), position_table,
                               flow.main);
  else look_up_together(step, tokens.weight(0), position_table, flow.main);
  if (dropout_.active(step)) kernels::dropout_forward(step.exec, dropout_.of(step), flow.main, flow.main);
}

// The row of a token comes from the rank that holds it.
void EmbeddingBlock::look_up_together(Step& step, base::View table, base::View position_table, base::View out) const {
  const auto& edges = *step.edges;
  const auto n = step.micro.tokens.count();
  tensor::ArenaScope scope(step.exec.scratch());
  const auto values = edges.shares_rows() ? step.exec.scratch().allocate(out.dtype, {n, out.cols()}) : out;
  kernels::embedding_lookup(step.exec, step.micro.tokens, table, edges.rank() * table.rows(),
                            edges.ranks() * table.rows(), values);
  edges.merge(values, out);
  if (!position_table) return;
  const auto positions = step.micro.positions.reshaped({n});
  kernels::embedding_add(step.exec, params::flat_range(positions, edges.first_row(n), out.rows()), position_table, out);
}

void EmbeddingBlock::backward(Step& step, Flow& flow, Saved&) {
  if (dropout_.active(step)) kernels::dropout_backward(step.exec, dropout_.of(step), flow.main, flow.main);
  tensor::ArenaScope scope(step.exec.scratch());
  const auto gradient = all_rows(step, flow.main);
  auto tokens = step.store->grads(tokens_);
  const auto table = tokens.gradient(0);
  kernels::embedding_backward(step.exec, step.micro.tokens, step.edges->rank() * table.rows(), gradient, table);
  tokens.commit();
  if (!positions_) return;
  auto positions = step.store->grads(*positions_);
  kernels::embedding_backward(step.exec, step.micro.positions, 0, gradient, positions.gradient(0));
  positions.commit();
}

}  // namespace trainyard::model

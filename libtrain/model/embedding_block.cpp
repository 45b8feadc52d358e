// The embedding: x = dropout(tokens[t] + positions[p]) (Radford et al. 2019, section 2.3; no positions with rotary
// attention).
#include "libtrain/model/embedding_block.h"

#include "kernels/embedding/embedding.h"

namespace trainyard::model {

EmbeddingBlock::EmbeddingBlock(const plan::ModelConfig& model, const std::vector<plan::Use>& uses)
    : tokens_(uses.at(0)), dropout_("embedding", model.dropout_embedding) {
  if (uses.size() > 1) positions_ = uses[1];
}

void EmbeddingBlock::forward(Step& step, Flow& flow, Saved&) {
  const auto& micro = step.micro;
  const auto tokens = step.store->lease(tokens_);
  std::optional<params::Lease> positions;
  if (positions_) positions.emplace(step.store->lease(*positions_));
  kernels::embedding_forward(step.exec, micro.tokens, micro.positions, tokens.weight(0),
                             positions ? positions->weight(0) : base::View{}, flow.main);
  if (dropout_.active(step)) kernels::dropout_forward(step.exec, dropout_.of(step), flow.main, flow.main);
}

void EmbeddingBlock::backward(Step& step, Flow& flow, Saved&) {
  if (dropout_.active(step)) kernels::dropout_backward(step.exec, dropout_.of(step), flow.main, flow.main);
  auto tokens = step.store->grads(tokens_);
  kernels::embedding_backward(step.exec, step.micro.tokens, 0, flow.main, tokens.gradient(0));
  tokens.commit();
  if (!positions_) return;
  auto positions = step.store->grads(*positions_);
  kernels::embedding_backward(step.exec, step.micro.positions, 0, flow.main, positions.gradient(0));
  positions.commit();
}

}  // namespace trainyard::model

// The embedding: x = dropout(tokens[t] + positions[p]) (Radford et al. 2019, section 2.3; no positions with rotary attention).
#include "libtrain/model/embedding_block.h"

#include "kernels/embedding/embedding.h"
#include "libtrain/model/declaration.h"

#include <optional>

namespace trainyard::model {

EmbeddingBlock::EmbeddingBlock(const plan::ModelConfig& model)
    : learned_positions_(model.positions == plan::Positions::learned), dropout_("embedding", model.dropout_embedding) {
  Declaration tokens(model, "embedding.tokens");
  tokens.vocabulary_table("weight", Decay::no);
  units_.push_back(tokens.unit());
  if (!learned_positions_) return;
  Declaration positions(model, "embedding.positions");
  positions.positions_table("weight");
  units_.push_back(positions.unit());
}

std::vector<plan::Use> EmbeddingBlock::uses() const {
  std::vector<plan::Use> all{{unit_of_tokens(), 0}};
  if (learned_positions_) all.push_back({unit_of_positions(), 0});
  return all;
}

void EmbeddingBlock::forward(Step& step, Flow& flow, Saved&) {
  const auto& micro = step.micro;
  const auto tokens = step.store.lease({unit_of_tokens(), 0});
  std::optional<params::Lease> positions;
  if (learned_positions_) positions.emplace(step.store.lease({unit_of_positions(), 0}));
  kernels::embedding_forward(step.exec, micro.tokens, micro.positions, tokens.weight(0), positions ? positions->weight(0) : base::View{}, flow.main);
  if (dropout_.active(step)) kernels::dropout_forward(step.exec, dropout_.of(step), flow.main, flow.main);
}

void EmbeddingBlock::backward(Step& step, Flow& flow, Saved&) {
  if (dropout_.active(step)) kernels::dropout_backward(step.exec, dropout_.of(step), flow.main, flow.main);
  auto tokens = step.store.grads({unit_of_tokens(), 0});
  kernels::embedding_backward(step.exec, step.micro.tokens, flow.main, tokens.gradient(0));
  tokens.commit();
  if (!learned_positions_) return;
  auto positions = step.store.grads({unit_of_positions(), 0});
  kernels::embedding_backward(step.exec, step.micro.positions, flow.main, positions.gradient(0));
  positions.commit();
}

}  // namespace trainyard::model

// The bridge between an encoder and a decoder, forward and backward.
#include "libtrain/model/bridge_block.h"

#include "kernels/cast/cast.h"
#include "libtrain/model/kv_cache.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/blocks/bridge.h"
#include "libtrain/plan/spec/conditions.h"

namespace trainyard::model {

namespace {

std::vector<plan::Occurrence> of_embedding(const plan::ModelConfig& m, const std::vector<plan::Occurrence>& all) {
  return {all.begin() + (plan::has_final_norm(m) ? 1 : 0), all.end()};
}

}  // namespace

BridgeBlock::BridgeBlock(const plan::ModelConfig& model, const std::vector<plan::FlatGroup>& flat_groups,
                         const std::vector<plan::Occurrence>& occurrences)
    : model_(model), dropout_("encoder.norm", model.dropout_final_norm),
      embedding_(model, flat_groups, of_embedding(model, occurrences), "decoder.embedding") {
  if (!plan::has_final_norm(model)) return;
  norm_.emplace(model, flat_groups.at(0), "norm");
  normed_ = occurrences.at(0);
}

void BridgeBlock::forward(Step& step, Flow& flow, Saved& saved) {
  if (goes_on(step)) return embedding_.forward(step, flow, saved);
  if (norm_) {
    const auto lease = step.store->lease(*normed_);
    const PassTensors t(plan::bridge_tensors(model_, shape_of(step), step.pass), step, saved);
    norm_->forward(step, lease, flow.source, *t);
  }
  if (dropout_.active(step))
    kernels::dropout_forward(step.exec, dropout_.of(step_of_source(step)), flow.source, flow.memory);
  else tensor::copy(step.exec, flow.source, flow.memory);
  flow.main = flow.target;
  embedding_.forward(step, flow, saved);
}

void BridgeBlock::backward(Step& step, Flow& flow, Saved& saved) {
  embedding_.backward(step, flow, saved);
  flow.main = flow.source;
  kernels::cast(step.exec, flow.memory_gradient, flow.main);
  if (dropout_.active(step))
    kernels::dropout_backward(step.exec, dropout_.of(step_of_source(step)), flow.main, flow.main);
  if (!norm_) return;
  const auto lease = step.store->lease(*normed_);
  auto grads = step.store->grads(*normed_);
  const auto t = SavedSet::pop(saved, plan::bridge_tensors(model_, shape_of(step), plan::Pass::train));
  norm_->backward(step, lease, norm_->gradients(grads), flow.main, t, flow.main);
  grads.commit();
}

}  // namespace trainyard::model

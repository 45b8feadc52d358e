// The transformer layer, forward and backward.
#include "libtrain/model/layer_block.h"

#include "libtrain/model/tensors.h"

namespace trainyard::model {

LayerBlock::LayerBlock(const plan::ModelConfig& model, std::int64_t layer)
    : model_(model), use_{unit_of_layer(model, layer), 0}, declaration_(model, layer_name(model, layer)),
      attention_(model, declaration_, layer, declaration_.unit().name), ffn_(model, declaration_, declaration_.unit().name) {}

void LayerBlock::forward(Step& step, Flow& flow, Saved& saved) {
  const auto lease = step.store.lease(use_);
  auto& workspace = step.exec.scratch();
  tensor::ArenaScope scope(workspace);
  const auto branch = workspace.allocate(step.dtype, {flow.main.rows(), flow.main.cols()});
  attention_.forward(step, lease, flow.main, branch, *PartTensors(model_, plan::Part::attention, step, saved));
  ffn_.forward(step, lease, flow.main, branch, attention_.residual_dropout(step), *PartTensors(model_, plan::Part::ffn, step, saved));
}

void LayerBlock::backward(Step& step, Flow& flow, Saved& saved) {
  const auto lease = step.store.lease(use_);
  auto grads = step.store.grads(use_);
  ffn_.backward(step, lease, grads, flow.main, popped(model_, plan::Part::ffn, step, saved));
  attention_.backward(step, lease, grads, flow.main, popped(model_, plan::Part::attention, step, saved));
  grads.commit();
}

}  // namespace trainyard::model

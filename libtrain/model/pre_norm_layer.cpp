// The pre-norm layer, forward and backward.
#include "libtrain/model/pre_norm_layer.h"

#include "libtrain/plan/blocks/layer.h"

#include <algorithm>

namespace trainyard::model {

PreNormLayer::PreNormLayer(const plan::ModelConfig& model, std::string name, plan::Occurrence occurrence,
                           std::vector<Sublayer> sublayers)
    : model_(model), name_(std::move(name)), occurrence_(occurrence), sublayers_(std::move(sublayers)),
      apart_(make_weight_gradients_apart(sublayers_)) {}

std::vector<std::vector<plan::SavedTensor>> PreNormLayer::tensors(const Step& step, plan::Pass pass) const {
  return plan::layer_tensors(model_, shape_of(step), pass);
}

// All tensors of a branch and its norm, for backward. Recomputes the tensors that did not stay.
SavedSet PreNormLayer::take(const Sublayer& s, const std::vector<plan::SavedTensor>& list, Step& step,
                            const params::Lease& lease, Saved& saved) const {
  const auto t = SavedSet::take_back(step, saved, list);
  if (step.recompute != plan::Recompute::selective) return t;
  s.norm.make_again(step, lease, t);
  s.make_again(step, model_, t);
  return t;
}

void PreNormLayer::forward(Step& step, Flow& flow, Saved& saved) {
  const auto lease = step.store->lease(occurrence_);
  auto& workspace = step.exec.scratch();
  tensor::ArenaScope scope(workspace);
  const auto output = workspace.allocate(step.dtype, {flow.main.rows(), flow.main.cols()});  // own rows
  const Sublayer* before = nullptr;  // its output is not added yet
  auto x = flow.main;
  const auto groups = tensors(step, step.pass);
  for (std::size_t i = 0; i < sublayers_.size(); ++i) {
    const auto& s = sublayers_[i];
    const PassTensors t(groups[i], step, saved);
    if (before == nullptr) s.norm.forward(step, lease, x, *t);
    else x = s.norm.forward_sum(step, lease, x, output, before->residual.of(step), *t);
    const bool unread = step.output == Output::unread && &s == &sublayers_.back();
    s.branch->forward(step, lease, *t, unread && s.kind->skips_unread_output() ? base::View{} : output);
    before = &s;
  }
  if (step.output == Output::read) kernels::dropout_add(step.exec, before->residual.of(step), x, output, flow.main);
}

void PreNormLayer::backward(Step& step, Flow& flow, Saved& saved) {
  const auto lease = step.store->lease(occurrence_);
  auto grads = step.store->grads(occurrence_);
  auto& workspace = step.exec.scratch();
  const auto groups = tensors(step, plan::Pass::train);
  for (auto i = sublayers_.size(); i-- > 0;) {
    const auto& s = sublayers_[i];
    const auto t = take(s, groups[i], step, lease, saved);
    tensor::ArenaScope scope(workspace);
    const auto d_normed = workspace.allocate(step.dtype, {flow.main.rows(), model_.hidden});
    {
      tensor::ArenaScope buffers(workspace);
      s.branch->backward(step, lease, grads, OutputGradient(s.residual, flow.main), t, d_normed);
    }
    s.norm.backward(step, lease, s.norm.gradients(grads), d_normed, t, flow.main);
  }
  grads.commit();
}

void PreNormLayer::input_gradients(Step& step, Flow& flow, Saved& saved) {
  if (!apart_) return backward(step, flow, saved);
  const auto lease = step.store->lease(occurrence_);
  auto& workspace = step.exec.scratch();
  const auto groups = tensors(step, plan::Pass::train);
  for (auto i = sublayers_.size(); i-- > 0;) {
    const auto& s = sublayers_[i];
    const auto t = SavedSet::keep(saved, groups[i]);
    tensor::ArenaScope scope(workspace);
    const auto d_normed = workspace.allocate(step.dtype, {flow.main.rows(), model_.hidden}),
               d_output = workspace.allocate(step.dtype, {flow.main.rows(), model_.hidden});
    const OutputGradient gradient(s.residual, flow.main);
    if (gradient.dropped(step)) gradient.in(step, d_output);
    else tensor::copy(step.exec, flow.main, d_output);
    {
      tensor::ArenaScope buffers(workspace);
      s.branch->input_gradients(step, lease, d_output, t, d_normed);
    }
    s.norm.backward(step, lease, s.norm.gradients(t), d_normed, t, flow.main);
    tensor::copy(step.exec, d_output, t["input"]);
  }
}

void PreNormLayer::weight_gradients(Step& step, Flow&, Saved& saved) {
  if (!apart_) return;
  auto grads = step.store->grads(occurrence_);
  const auto groups = tensors(step, plan::Pass::train);
  for (auto i = sublayers_.size(); i-- > 0;) {
    const auto& s = sublayers_[i];
    const auto t = SavedSet::pop(saved, groups[i]);
    hand_over_gradients(step, s.norm, t, grads);
    tensor::ArenaScope scope(step.exec.scratch());
    s.branch->weight_gradients(step, grads, t["input"], t);
  }
  grads.commit();
}

}  // namespace trainyard::model

// The post-norm layer, forward and backward.
#include "libtrain/model/post_norm_layer.h"

#include "kernels/cast/cast.h"
#include "libtrain/plan/blocks/layer.h"

namespace trainyard::model {

PostNormLayer::PostNormLayer(const plan::ModelConfig& model, std::string name, LayerGroups flat_groups,
                             std::vector<Sublayer> sublayers)
    : model_(model), name_(std::move(name)), flat_groups_(flat_groups), sublayers_(std::move(sublayers)),
      apart_(make_weight_gradients_apart(model, sublayers_)) {}

std::vector<std::vector<plan::SavedTensor>> PostNormLayer::tensors(const Step& step, plan::Pass pass) const {
  return plan::layer_tensors(model_, shape_of(step), pass);
}

// A norm reads every sum, so nothing can be left out if the output is unread.
void PostNormLayer::forward(Step& step, Flow& flow, Saved& saved) {
  const LayerGroups::Leases leases(step, flat_groups_);
  const auto& lease = leases.own();
  auto& workspace = step.exec.scratch();
  tensor::ArenaScope scope(workspace);
  const auto output = workspace.allocate(step.dtype, {flow.main.rows(), flow.main.cols()});  // own rows
  const auto groups = tensors(step, step.pass);
  const Sublayer* before = nullptr;  // its output is not added yet
  for (std::size_t i = 0; i < sublayers_.size(); ++i) {
    const PassTensors t(groups[i], step, saved);
    if (before == nullptr) {
      kernels::copy(step.exec, flow.main, (*t)["normed"]);
    } else {
      before->norm->forward_sum(step, lease, flow.main, output, before->residual.of(step), *t);
      kernels::copy(step.exec, (*t)["normed"], flow.main);
    }
    before = &sublayers_[i];
    before->branch->forward(step, lease, *t, output);
  }
  const PassTensors t(groups.back(), step, saved);
  before->norm->forward_sum(step, lease, flow.main, output, before->residual.of(step), *t);
}

// With s = x + dropout(branch(x)) and y = norm(s): ds comes from the norm's backward, and dx = ds + the branch's input
// gradient.
void PostNormLayer::backward(Step& step, Flow& flow, Saved& saved) {
  const LayerGroups::Leases leases(step, flat_groups_);
  const auto& lease = leases.own();
  LayerGroups::Gradients gradients(step, flat_groups_);
  const auto& grads = gradients.own();
  auto& workspace = step.exec.scratch();
  const auto groups = tensors(step, plan::Pass::train);
  const auto through_norm = [&](const Sublayer& s, const SavedSet& t) {
    s.norm->backward(step, lease, s.norm->gradients(grads), flow.main, t, flow.main);
  };
  through_norm(sublayers_.back(), SavedSet::take_back(step, saved, groups.back()));
  for (auto i = sublayers_.size(); i-- > 0;) {
    const auto& s = sublayers_[i];
    const auto t = SavedSet::take_back(step, saved, groups[i]);
    if (step.recompute == plan::Recompute::selective) {
      if (i > 0) sublayers_[i - 1].norm->make_again(step, lease, t);
      s.make_again(step, model_, t);
    }
    {
      tensor::ArenaScope scope(workspace);
      const auto d_normed = workspace.allocate(step.dtype, {flow.main.rows(), model_.hidden});
      s.branch->backward(step, lease, grads, OutputGradient(s.residual, flow.main), t, d_normed);
      kernels::add(step.exec, flow.main, d_normed);
    }
    if (i > 0) through_norm(sublayers_[i - 1], t);
  }
  gradients.commit();
}

void PostNormLayer::input_gradients(Step& step, Flow& flow, Saved& saved) {
  if (!apart_) return backward(step, flow, saved);
  const LayerGroups::Leases leases(step, flat_groups_);
  const auto& lease = leases.own();
  auto& workspace = step.exec.scratch();
  const auto groups = tensors(step, plan::Pass::train);
  const auto through_norm = [&](const Sublayer& s, const SavedSet& t) {
    s.norm->backward(step, lease, s.norm->gradients(t), flow.main, t, flow.main);
  };
  auto behind = SavedSet::keep(saved, groups.back());
  through_norm(sublayers_.back(), behind);
  for (auto i = sublayers_.size(); i-- > 0;) {
    const auto& s = sublayers_[i];
    const auto t = SavedSet::keep(saved, groups[i]);
    const auto d_output = behind["input"];
    const OutputGradient gradient(s.residual, flow.main);
    if (gradient.dropped(step)) gradient.in(step, d_output);
    else tensor::copy(step.exec, flow.main, d_output);
    {
      tensor::ArenaScope scope(workspace);
      const auto d_normed = workspace.allocate(step.dtype, {flow.main.rows(), model_.hidden});
      s.branch->input_gradients(step, lease, d_output, t, d_normed);
      kernels::add(step.exec, flow.main, d_normed);
    }
    if (i > 0) through_norm(sublayers_[i - 1], t);
    behind = t;
  }
}

void PostNormLayer::weight_gradients(Step& step, Flow&, Saved& saved) {
  if (!apart_) return;
  LayerGroups::Gradients gradients(step, flat_groups_);
  const auto& grads = gradients.own();
  const auto groups = tensors(step, plan::Pass::train);
  auto behind = SavedSet::pop(saved, groups.back());
  hand_over_gradients(step, *sublayers_.back().norm, behind, grads);
  for (auto i = sublayers_.size(); i-- > 0;) {
    const auto t = SavedSet::pop(saved, groups[i]);
    if (i > 0) hand_over_gradients(step, *sublayers_[i - 1].norm, t, grads);
    tensor::ArenaScope scope(step.exec.scratch());
    sublayers_[i].branch->weight_gradients(step, grads, behind["input"], t);
    behind = t;
  }
  gradients.commit();
}

}  // namespace trainyard::model

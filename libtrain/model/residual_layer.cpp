// The residual layer, forward and backward.
#include "libtrain/model/residual_layer.h"

#include "kernels/cast/cast.h"
#include "libtrain/plan/blocks/layer.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>

namespace trainyard::model {

ResidualLayer::ResidualLayer(const plan::ModelConfig& model, std::string name, LayerGroups flat_groups,
                             std::vector<Sublayer> sublayers)
    : model_(model), name_(std::move(name)), flat_groups_(flat_groups), sublayers_(std::move(sublayers)),
      parallel_(plan::is_parallel(model)), apart_(make_weight_gradients_apart(model, sublayers_)) {}

std::vector<ResidualLayer::Groups> ResidualLayer::groups(const Step& step, plan::Pass pass) const {
  auto lists = plan::layer_tensors(model_, shape_of(step), pass);
  std::vector<Groups> all;
  for (auto next = lists.begin(); const auto& s : sublayers_) {
    auto& of = all.emplace_back();
    of.branch = std::move(*next++);
    if (s.behind) of.behind = std::move(*next++);
  }
  return all;
}

// All tensors of a branch and the norm before it, for backward. Recomputes the tensors that did not stay.
SavedSet ResidualLayer::take(const Sublayer& s, const std::vector<plan::SavedTensor>& list, Step& step,
                             const params::Lease& lease, Saved& saved) const {
  const auto t = SavedSet::take_back(step, saved, list);
  if (step.recompute != plan::Recompute::selective) return t;
  if (s.norm) s.norm->make_again(step, lease, t);
  s.make_again(step, model_, t);
  return t;
}

bool ResidualLayer::skips_output(const Step& step, const Sublayer& s) const {
  return step.output == Output::unread && (parallel_ || &s == &sublayers_.back()) && !s.behind &&
         s.kind->skips_unread_output();
}

// Fills "normed", the input of branch i. x: the hidden states, to which `output`, that of the branch before, is still
// to be added, unless branches are side by side. Returns where the sum is.
base::View ResidualLayer::enter(Step& step, const params::Lease& lease, std::size_t i, base::View x, base::View output,
                                const SavedSet& t) const {
  const auto& s = sublayers_[i];
  if (i == 0 || parallel_) {
    if (s.norm) s.norm->forward(step, lease, x, t);
    else kernels::copy(step.exec, x, t["normed"]);
    return x;
  }
  const auto dropout = sublayers_[i - 1].residual.of(step);
  if (s.norm) return s.norm->forward_sum(step, lease, x, output, dropout, t);
  const auto normed = t["normed"];
  if (step.pass == plan::Pass::train) {  // the tensor outlives the branch
    kernels::dropout_add(step.exec, dropout, x, output, normed);
    return normed;
  }
  kernels::dropout_add(step.exec, dropout, x, output, x);
  kernels::copy(step.exec, x, normed);
  return x;
}

void ResidualLayer::forward(Step& step, Flow& flow, Saved& saved) {
  const LayerGroups::Leases leases(step, flat_groups_);
  const auto& lease = leases.own();
  auto& workspace = step.exec.scratch();
  tensor::ArenaScope scope(workspace);
  const auto own_rows = [&] { return workspace.allocate(step.dtype, {flow.main.rows(), flow.main.cols()}); };
  const auto output = own_rows(), sums = parallel_ ? own_rows() : base::View{};
  auto x = flow.main;
  const auto lists = groups(step, step.pass);
  for (std::size_t i = 0; i < sublayers_.size(); ++i) {
    const auto& s = sublayers_[i];
    {
      const PassTensors t(lists[i].branch, step, saved);
      const auto sum = enter(step, lease, i, parallel_ ? flow.main : x, output, *t);
      if (!parallel_) x = sum;
      s.branch->forward(step, lease, *t, skips_output(step, s) ? base::View{} : output);
    }
    if (s.behind) {
      const PassTensors t(lists[i].behind, step, saved);
      s.behind->forward(step, lease, output, *t);
    }
    if (step.output == Output::unread) continue;
    const bool last = i + 1 == sublayers_.size();
    const auto into = last ? flow.main : sums;
    if (last || parallel_) kernels::dropout_add(step.exec, s.residual.of(step), x, output, into);
    if (parallel_) x = into;
  }
}

// The gradient of a branch's output is that of the hidden states behind the branch. Side by side, it is that of the
// layer's output for all.
void ResidualLayer::backward(Step& step, Flow& flow, Saved& saved) {
  const LayerGroups::Leases leases(step, flat_groups_);
  const auto& lease = leases.own();
  LayerGroups::Gradients gradients(step, flat_groups_);
  const auto& grads = gradients.own();
  auto& workspace = step.exec.scratch();
  tensor::ArenaScope layer_scope(workspace);
  const auto behind = output_gradient(step, flow.main);
  const auto lists = groups(step, plan::Pass::train);
  for (auto i = sublayers_.size(); i-- > 0;) {
    const auto& s = sublayers_[i];
    tensor::ArenaScope scope(workspace);
    const auto own_rows = [&] { return workspace.allocate(step.dtype, {flow.main.rows(), model_.hidden}); };
    OutputGradient gradient(s.residual, behind);
    if (s.behind) {
      const auto d_output = own_rows();
      gradient.copied(step, d_output);
      s.behind->backward(step, lease, s.behind->gradients(grads), d_output,
                         SavedSet::take_back(step, saved, lists[i].behind), d_output);
      gradient = OutputGradient(d_output);
    }
    const auto t = take(s, lists[i].branch, step, lease, saved);
    const auto d_normed = own_rows();
    {
      tensor::ArenaScope buffers(workspace);
      s.branch->backward(step, lease, grads, gradient, t, d_normed);
    }
    if (s.norm) s.norm->backward(step, lease, s.norm->gradients(grads), d_normed, t, flow.main);
    else kernels::add(step.exec, flow.main, d_normed);
  }
  gradients.commit();
}

// flow.main itself, which then becomes the gradient of the hidden states before a branch. Side by side, a copy.
base::View ResidualLayer::output_gradient(Step& step, base::View stream) const {
  if (!parallel_) return stream;
  const auto copy = step.exec.scratch().allocate(step.dtype, {stream.rows(), stream.cols()});
  tensor::copy(step.exec, stream, copy);
  return copy;
}

void ResidualLayer::input_gradients(Step& step, Flow& flow, Saved& saved) {
  if (!apart_) return backward(step, flow, saved);
  const LayerGroups::Leases leases(step, flat_groups_);
  const auto& lease = leases.own();
  auto& workspace = step.exec.scratch();
  tensor::ArenaScope layer_scope(workspace);
  const auto behind = output_gradient(step, flow.main);
  const auto lists = groups(step, plan::Pass::train);
  for (auto i = sublayers_.size(); i-- > 0;) {
    const auto& s = sublayers_[i];
    tensor::ArenaScope scope(workspace);
    const auto own_rows = [&] { return workspace.allocate(step.dtype, {flow.main.rows(), model_.hidden}); };
    const auto d_output = own_rows();
    OutputGradient(s.residual, behind).copied(step, d_output);
    base::View kept;  // until the second half
    if (s.behind) {
      const auto t = SavedSet::keep(saved, lists[i].behind);
      s.behind->backward(step, lease, s.behind->gradients(t), d_output, t, d_output);
      kept = t["input"];
    }
    const auto t = SavedSet::keep(saved, lists[i].branch);
    const auto d_normed = own_rows();
    {
      tensor::ArenaScope buffers(workspace);
      s.branch->input_gradients(step, lease, d_output, t, d_normed);
    }
    if (s.norm) s.norm->backward(step, lease, s.norm->gradients(t), d_normed, t, flow.main);
    else kernels::add(step.exec, flow.main, d_normed);
    tensor::copy(step.exec, d_output, s.behind ? kept : t["input"]);
  }
}

void ResidualLayer::weight_gradients(Step& step, Flow&, Saved& saved) {
  if (!apart_) return;
  LayerGroups::Gradients gradients(step, flat_groups_);
  const auto& grads = gradients.own();
  const auto lists = groups(step, plan::Pass::train);
  for (auto i = sublayers_.size(); i-- > 0;) {
    const auto& s = sublayers_[i];
    base::View d_output;
    if (s.behind) {
      const auto t = SavedSet::pop(saved, lists[i].behind);
      hand_over_gradients(step, *s.behind, t, grads);
      d_output = t["input"];
    }
    const auto t = SavedSet::pop(saved, lists[i].branch);
    if (s.norm) hand_over_gradients(step, *s.norm, t, grads);
    tensor::ArenaScope scope(step.exec.scratch());
    s.branch->weight_gradients(step, grads, s.behind ? d_output : t["input"], t);
  }
  gradients.commit();
}

}  // namespace trainyard::model

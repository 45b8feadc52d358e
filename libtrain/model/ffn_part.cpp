// The feed-forward branch, forward and backward.
#include "libtrain/model/ffn_part.h"

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"

namespace trainyard::model {

namespace {

std::vector<Joined::Slots> inner_slots(const plan::ModelConfig& m, Declaration& d) {
  std::vector<Joined::Slots> slots;
  const auto add = [&](const std::string& name) {
    const int weight = d.weight(name + ".weight", m.ffn, m.hidden);
    slots.push_back({weight, d.bias(name + ".bias", m.ffn)});
  };
  if (m.activation == plan::Activation::swiglu) add("ffn.gate");
  add("ffn.up");
  return slots;
}

}  // namespace

FfnPart::FfnPart(const plan::ModelConfig& model, Declaration& d, const std::string& layer)
    : model_(model), norm_(model, d, "ffn_norm"), inner_slots_(inner_slots(model, d)), inner_(inner_slots_),
      down_weight_(d.residual_weight("ffn.down.weight", model.hidden, model.ffn)), down_bias_(d.bias("ffn.down.bias", model.hidden)),
      dropout_(layer + ".ffn_residual", model.dropout_ffn_residual) {}

void FfnPart::activate(Step& step, const params::Lease& lease, const SavedSet& t) const {
  if (model_.activation == plan::Activation::gelu_tanh) {
    const auto& up = inner_slots_.front();
    kernels::linear_gelu_forward(step.exec, t["normed"], lease.weight(up.weight), up.bias < 0 ? base::View{} : lease.weight(up.bias), t["inner"], t["activated"]);
    return;
  }
  inner_.forward(step.exec, lease, t["normed"], t["inner"]);
  kernels::swiglu_forward(step.exec, t["inner"].columns(0, model_.ffn), t["inner"].columns(model_.ffn, model_.ffn), t["activated"]);
}

void FfnPart::forward(Step& step, const params::Lease& lease, base::View stream, base::View branch, const kernels::Dropout& dropout, const SavedSet& t) const {
  const auto x = norm_.forward_sum(step, lease, stream, branch, dropout, t);
  activate(step, lease, t);
  kernels::linear_forward(step.exec, t["activated"], lease.weight(down_weight_), down_bias_ < 0 ? base::View{} : lease.weight(down_bias_), branch);
  kernels::dropout_add(step.exec, dropout_.of(step), x, branch, stream);
}

void FfnPart::backward(Step& step, const params::Lease& lease, const params::Grads& grads, base::View gradient, const SavedSet& t) const {
  auto& workspace = step.exec.scratch();
  const auto n = gradient.rows();
  tensor::ArenaScope scope(workspace);
  const auto d_normed = workspace.allocate(step.dtype, {n, model_.hidden});
  {
    tensor::ArenaScope inner_scope(workspace);
    const auto d_inner = workspace.allocate(step.dtype, {n, t["inner"].cols()});
    const bool gelu = model_.activation == plan::Activation::gelu_tanh;
    const auto d_activated = gelu ? base::View{} : workspace.allocate(step.dtype, {n, model_.ffn});
    auto d_branch = gradient;
    if (dropout_.active(step)) {   // d_normed is not needed yet: its place holds the branch's gradient
      d_branch = d_normed;
      kernels::dropout_backward(step.exec, dropout_.of(step), gradient, d_branch);
    }
    kernels::linear_backward_weight(step.exec, d_branch, t["activated"], grads.gradient(down_weight_), down_bias_ < 0 ? base::View{} : grads.gradient(down_bias_));
    if (gelu) {
      kernels::linear_gelu_backward_input(step.exec, d_branch, lease.weight(down_weight_), t["inner"], d_inner);
    } else {
      kernels::linear_backward_input(step.exec, d_branch, lease.weight(down_weight_), d_activated);
      kernels::swiglu_backward(step.exec, t["inner"].columns(0, model_.ffn), t["inner"].columns(model_.ffn, model_.ffn), d_activated,
                               d_inner.columns(0, model_.ffn), d_inner.columns(model_.ffn, model_.ffn));
    }
    inner_.backward_weight(step.exec, grads, d_inner, t["normed"]);
    inner_.backward_input(step.exec, lease, d_inner, d_normed);
  }
  norm_.backward(step, lease, grads, d_normed, t, gradient);
}

}  // namespace trainyard::model

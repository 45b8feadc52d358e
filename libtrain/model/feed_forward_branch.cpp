// The feed-forward branch, forward and backward.
#include "libtrain/model/feed_forward_branch.h"

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"

namespace trainyard::model {

namespace {

std::vector<FusedLinear::Indices> inner_indices(const plan::ModelConfig& m, const plan::Unit& unit) {
  const auto indices = [&](const char* weight, const char* bias) {
    return FusedLinear::Indices{plan::index_of(unit, weight), plan::index_of(unit, bias)};
  };
  const auto up = indices("ffn.up.weight", "ffn.up.bias");
  if (m.activation == plan::Activation::gelu_tanh) return {up};
  return {indices("ffn.gate.weight", "ffn.gate.bias"), up};
}

}  // namespace

FeedForwardBranch::FeedForwardBranch(const BranchSpec& spec)
    : width_(spec.model.ffn), inner_indices_(inner_indices(spec.model, spec.unit)), inner_(inner_indices_),
      down_weight_(plan::index_of(spec.unit, "ffn.down.weight")),
      down_bias_(plan::index_of(spec.unit, "ffn.down.bias")) {}

void FeedForwardBranch::forward(Step& step, const params::Lease& lease, const SavedSet& t, base::View output) const {
  if (gated()) {
    inner_.forward(step.exec, lease, t["normed"], t["inner"]);
    kernels::swiglu_forward(step.exec, t["inner"].columns(0, width_), t["inner"].columns(width_, width_),
                            t["activated"]);
  } else {
    const auto& up = inner_indices_.front();
    kernels::linear_gelu_forward(step.exec, t["normed"], lease.weight(up.weight),
                                 up.bias < 0 ? base::View{} : lease.weight(up.bias), t["inner"], t["activated"]);
  }
  kernels::linear_forward(step.exec, t["activated"], lease.weight(down_weight_),
                          down_bias_ < 0 ? base::View{} : lease.weight(down_bias_), output);
}

void FeedForwardBranch::backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                                 const OutputGradient& gradient, const SavedSet& t, base::View d_normed) const {
  auto& workspace = step.exec.scratch();
  const auto d_inner = workspace.allocate(step.dtype, {d_normed.rows(), t["inner"].cols()});
  const auto d_activated = gated() ? workspace.allocate(step.dtype, {d_normed.rows(), width_}) : base::View{};
  const auto d_output = gradient.in(step, d_normed);
  kernels::linear_backward_weight(step.exec, d_output, t["activated"], grads.gradient(down_weight_),
                                  down_bias_ < 0 ? base::View{} : grads.gradient(down_bias_));
  if (gated()) {
    kernels::linear_backward_input(step.exec, d_output, lease.weight(down_weight_), d_activated);
    kernels::swiglu_backward(step.exec, t["inner"].columns(0, width_), t["inner"].columns(width_, width_), d_activated,
                             d_inner.columns(0, width_), d_inner.columns(width_, width_));
  } else {
    kernels::linear_gelu_backward_input(step.exec, d_output, lease.weight(down_weight_), t["inner"], d_inner);
  }
  inner_.backward_weight(step.exec, grads, d_inner, t["normed"]);
  inner_.backward_input(step.exec, lease, d_inner, d_normed);
}

}  // namespace trainyard::model

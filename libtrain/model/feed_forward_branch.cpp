// The feed-forward branch, forward and backward.
#include "libtrain/model/feed_forward_branch.h"

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "libtrain/model/activation_form.h"
#include "libtrain/model/shared_sum.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

namespace trainyard::model {

namespace {

std::vector<FusedLinear::Indices> inner_indices(const BranchSpec& spec, const std::string& name) {
  const auto indices = [&](const char* layer) {
    return FusedLinear::Indices{plan::index_of(spec.flat_group, name + layer + ".weight"),
                                plan::find_index(spec.flat_group, name + layer + ".bias")};
  };
  if (!plan::is_gated(spec.model)) return {indices(".up")};
  return {indices(".gate"), indices(".up")};
}

}  // namespace

FeedForwardBranch::FeedForwardBranch(const BranchSpec& spec, const std::string& name)
    : model_(spec.model), names_(name), inner_indices_(inner_indices(spec, name)), inner_(inner_indices_),
      down_weight_(plan::index_of(spec.flat_group, name + ".down.weight")),
      down_bias_(plan::find_index(spec.flat_group, name + ".down.bias")) {}

void FeedForwardBranch::forward(Step& step, const params::Lease& lease, const SavedSet& t, base::View output) const {
  const plan::Widths w(model_, step.collectives->ranks());
  {
    tensor::ArenaScope scope(step.exec.scratch());
    const auto normed = all_rows(step, t["normed"]);
    if (gated()) {
      inner_.forward(step.exec, lease, normed, t[names_.inner]);
      gate(step, t);
    } else {
      const auto& up = inner_indices_.front();
      kernels::linear_activation_forward(step.exec, {.form = activation_form(model_),
                                                     .x = normed,
                                                     .weight = lease.weight(up.weight),
                                                     .bias = up.bias < 0 ? base::View{} : lease.weight(up.bias),
                                                     .pre = t[names_.inner],
                                                     .y = t[names_.activated]});
    }
  }
  if (output)
    shared_forward(step, t[names_.activated], lease.weight(down_weight_),
                   down_bias_ < 0 ? base::View{} : lease.weight(down_bias_), w, output);
}

void FeedForwardBranch::gate(Step& step, const SavedSet& t) const {
  const auto width = t[names_.activated].cols();
  kernels::gated_forward(step.exec, activation_form(model_), t[names_.inner].columns(0, width),
                         t[names_.inner].columns(width, width), t[names_.activated]);
}

void FeedForwardBranch::make_again(Step& step, const SavedSet& t) const {
  if (gated()) gate(step, t);
  else kernels::activation_forward(step.exec, activation_form(model_), t[names_.inner], t[names_.activated]);
}

void FeedForwardBranch::down_weight_gradient(Step& step, const params::Grads& grads, base::View d_output,
                                             const SavedSet& t) const {
  kernels::linear_backward_weight(step.exec, d_output, t[names_.activated], grads.gradient(down_weight_),
                                  down_bias_ < 0 ? base::View{} : grads.gradient(down_bias_));
}

// d_activated [n, ffn]: scratch, used only with a gate.
void FeedForwardBranch::backward_to_inner(Step& step, const params::Lease& lease, base::View d_output,
                                          const SavedSet& t, base::View d_activated, base::View d_inner) const {
  const auto inner = t[names_.inner];
  if (!gated())
    return kernels::linear_activation_backward_input(step.exec, activation_form(model_), d_output,
                                                     lease.weight(down_weight_), inner, d_inner);
  const auto width = d_activated.cols();
  kernels::linear_backward_input(step.exec, d_output, lease.weight(down_weight_), d_activated);
  kernels::gated_backward(step.exec, {.form = activation_form(model_),
                                      .gate = inner.columns(0, width),
                                      .up = inner.columns(width, width),
                                      .dy = d_activated,
                                      .dgate = d_inner.columns(0, width),
                                      .dup = d_inner.columns(width, width)});
}

void FeedForwardBranch::input_gradients(Step& step, const params::Lease& lease, base::View d_output, const SavedSet& t,
                                        base::View d_normed) const {
  auto& workspace = step.exec.scratch();
  const auto inner = t[names_.inner], activated = t[names_.activated];
  const auto d_inner = workspace.allocate(step.dtype, {inner.rows(), inner.cols()});
  const auto d_activated = gated() ? workspace.allocate(step.dtype, {inner.rows(), activated.cols()}) : base::View{};
  backward_to_inner(step, lease, all_rows(step, d_output), t, d_activated, d_inner);
  inner_.input_gradient(step, lease, d_inner, plan::Widths(model_, step.collectives->ranks()), d_normed);
  tensor::copy(step.exec, d_inner, inner);
}

void FeedForwardBranch::weight_gradients(Step& step, const params::Grads& grads, base::View d_output,
                                         const SavedSet& t) const {
  {
    tensor::ArenaScope scope(step.exec.scratch());
    down_weight_gradient(step, grads, all_rows(step, d_output), t);
  }
  tensor::ArenaScope scope(step.exec.scratch());
  inner_.weight_gradients(step, grads, t[names_.inner], all_rows(step, t["normed"]));
}

void FeedForwardBranch::backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                                 const OutputGradient& gradient, const SavedSet& t, base::View d_normed) const {
  const auto n = t[names_.inner].rows();
  tensor::ArenaScope scope(step.exec.scratch());
  const auto rows = step.collectives->sequence_parallel() ? step.exec.scratch().allocate(step.dtype, {n, model_.hidden})
                                                          : base::View{};
  backward(step, lease, grads, gradient.all_rows(step, rows ? rows : d_normed), t, d_normed);
}

void FeedForwardBranch::backward(Step& step, const params::Lease& lease, const params::Grads& grads,
                                 base::View d_output, const SavedSet& t, base::View d_normed) const {
  const plan::Widths w(model_, step.collectives->ranks());
  auto& workspace = step.exec.scratch();
  const auto n = t[names_.inner].rows();
  const auto d_inner = workspace.allocate(step.dtype, {n, t[names_.inner].cols()});
  const auto d_activated = gated() ? workspace.allocate(step.dtype, {n, w.ffn}) : base::View{};
  const AllRows normed(step, t["normed"]);
  down_weight_gradient(step, grads, d_output, t);
  backward_to_inner(step, lease, d_output, t, d_activated, d_inner);
  inner_.backward(step, lease, grads, {.dy = d_inner, .widths = w, .x = normed, .dx = d_normed});
}

}  // namespace trainyard::model

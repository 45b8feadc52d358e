// The feed-forward branch, forward and backward.
#include "libtrain/model/feed_forward_branch.h"

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "libtrain/model/activation_form.h"
#include "libtrain/model/shared_sum.h"
#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <optional>
#include <string>

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
      down_bias_(plan::find_index(spec.flat_group, name + ".down.bias")),
      dropout_(spec.flat_group.name + "." + name, spec.model.dropout_ffn), adapters_(spec) {}

void FeedForwardBranch::forward(Step& step, const params::Lease& lease, const SavedSet& t, base::View output) const {
  const plan::Widths w(model_, step.collectives->ranks());
  {
    tensor::ArenaScope scope(step.exec.scratch());
    inner_forward(step, lease, all_rows(step, t["normed"]), t);
    drop(step, t[names_.activated]);
  }
  adapters_.begin_inputs(step, "down", t[names_.activated], t);
  if (!output) return;
  shared_forward(step, t[names_.activated], lease.weight(down_weight_),
                 down_bias_ < 0 ? base::View{} : lease.weight(down_bias_), w, output);
  adapters_.add_inputs(step, "down", t, output);
}

// An adapter adds to what the activation reads, so the product is apart from the activation then.
void FeedForwardBranch::inner_forward(Step& step, const params::Lease& lease, base::View normed,
                                      const SavedSet& t) const {
  const auto inner = t[names_.inner];
  if (gated()) {
    inner_.forward(step.exec, lease, normed, inner);
    const auto width = t[names_.activated].cols();
    adapters_.add_outputs(step, normed, {{"gate", inner.columns(0, width)}, {"up", inner.columns(width, width)}}, t);
    return gate(step, t);
  }
  if (adapters_.has("up")) {
    inner_.forward(step.exec, lease, normed, inner);
    adapters_.add_outputs(step, normed, {{"up", inner}}, t);
    return activate(step, t);
  }
  const auto& up = inner_indices_.front();
  kernels::linear_activation_forward(step.exec, {.form = activation_form(model_),
                                                 .x = normed,
                                                 .weight = lease.weight(up.weight),
                                                 .bias = up.bias < 0 ? base::View{} : lease.weight(up.bias),
                                                 .pre = inner,
                                                 .y = t[names_.activated]});
}

void FeedForwardBranch::gate(Step& step, const SavedSet& t) const {
  const auto width = t[names_.activated].cols();
  kernels::gated_forward(step.exec, activation_form(model_), t[names_.inner].columns(0, width),
                         t[names_.inner].columns(width, width), t[names_.activated]);
}

// The rank has columns of all rows.
void FeedForwardBranch::drop(Step& step, base::View columns) const {
  if (!dropout_.active(step)) return;
  const auto dropout = dropout_.of_columns(step, step.collectives->rank() * columns.cols());
  kernels::dropout_forward(step.exec, dropout, columns, columns);
}

void FeedForwardBranch::make_again(Step& step, const SavedSet& t) const {
  activate(step, t);
  drop(step, t[names_.activated]);
}

void FeedForwardBranch::activate(Step& step, const SavedSet& t) const {
  if (gated()) gate(step, t);
  else kernels::activation_forward(step.exec, activation_form(model_), t[names_.inner], t[names_.activated]);
}

void FeedForwardBranch::down_weight_gradient(Step& step, const params::Grads& grads, base::View d_output,
                                             const SavedSet& t) const {
  if (!grads.wanted()) return;
  kernels::linear_backward_weight(step.exec, d_output, t[names_.activated], grads.gradient(down_weight_),
                                  down_bias_ < 0 ? base::View{} : grads.gradient(down_bias_));
}

// d_activated [n, ffn]: scratch, empty unless plan::has_activated_gradient.
void FeedForwardBranch::backward_to_inner(Step& step, const params::Lease& lease, base::View d_output,
                                          const SavedSet& t, base::View d_activated, base::View d_inner) const {
  const auto inner = t[names_.inner];
  if (!d_activated)
    return kernels::linear_activation_backward_input(step.exec, activation_form(model_), d_output,
                                                     lease.weight(down_weight_), inner, d_inner);
  const auto width = d_activated.cols();
  kernels::linear_backward_input(step.exec, d_output, lease.weight(down_weight_), d_activated);
  adapters_.backward_inputs(step, {.target = "down", .dy = d_output, .x = t[names_.activated], .dx = d_activated}, t);
  drop(step, d_activated);  // the adjoint is the same product
  if (!gated()) return kernels::activation_backward(step.exec, activation_form(model_), inner, d_activated, d_inner);
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
  const auto d_activated = plan::has_activated_gradient(model_)
                               ? workspace.allocate(step.dtype, {inner.rows(), activated.cols()})
                               : base::View{};
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
  const auto d_activated =
      plan::has_activated_gradient(model_) ? workspace.allocate(step.dtype, {n, w.ffn}) : base::View{};
  std::optional<AllRows> normed;
  if (plan::reads_input_in_backward(model_, names_.prefix)) normed.emplace(step, t["normed"]);
  down_weight_gradient(step, grads, d_output, t);
  backward_to_inner(step, lease, d_output, t, d_activated, d_inner);
  if (!plan::has_adapter(model_))
    return inner_.backward(step, lease, grads, {.dy = d_inner, .widths = w, .x = *normed, .dx = d_normed});
  inner_.input_gradient(step, lease, d_inner, w, d_normed);
  if (!normed) return;
  if (gated())
    adapters_.backward_outputs(
        step, normed->get(), {{"gate", d_inner.columns(0, w.ffn)}, {"up", d_inner.columns(w.ffn, w.ffn)}}, t, d_normed);
  else adapters_.backward_outputs(step, normed->get(), {{"up", d_inner}}, t, d_normed);
}

}  // namespace trainyard::model

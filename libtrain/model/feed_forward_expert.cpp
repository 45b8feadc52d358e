// The feed-forward expert, forward and backward.
#include "libtrain/model/feed_forward_expert.h"

#include "kernels/activation/activation.h"
#include "libtrain/model/activation_form.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

namespace trainyard::model {

FeedForwardExpert::Layer FeedForwardExpert::layer_of(const plan::FlatGroup& one, const std::string& name) {
  return {plan::index_of(one, name + ".weight"), plan::find_index(one, name + ".bias")};
}

FeedForwardExpert::FeedForwardExpert(const ExpertSpec& spec)
    : width_(plan::expert_width(spec.model)), lanes_(spec.model.lanes), form_(activation_form(spec.model)),
      down_(layer_of(spec.one, "down")) {
  if (plan::is_gated(spec.model)) inner_.push_back(layer_of(spec.one, "gate"));
  inner_.push_back(layer_of(spec.one, "up"));
}

base::View FeedForwardExpert::part(base::View inner, std::size_t i) const {
  return inner.columns(static_cast<std::int64_t>(i) * width_, width_);
}

void FeedForwardExpert::forward(Step& step, const kernels::RowGroups& groups, const ExpertParameters& weights,
                                base::View x, const SavedSet& t, base::View y) const {
  for (std::size_t i = 0; i < inner_.size(); ++i)
    kernels::grouped_linear_forward(step.exec, {.groups = groups,
                                                .x = x,
                                                .weight = weights(inner_[i].weight),
                                                .bias = weights(inner_[i].bias),
                                                .lanes = 1,
                                                .y = part(t["inner"], i)});
  make_again(step, t);
  kernels::grouped_linear_forward(step.exec, {.groups = groups,
                                              .x = t["activated"],
                                              .weight = weights(down_.weight),
                                              .bias = weights(down_.bias),
                                              .lanes = lanes_,
                                              .y = y});
}

void FeedForwardExpert::make_again(Step& step, const SavedSet& t) const {
  const auto inner = t["inner"];
  if (inner_.size() == 1) kernels::activation_forward(step.exec, form_, inner, t["activated"]);
  else kernels::gated_forward(step.exec, form_, part(inner, 0), part(inner, 1), t["activated"]);
}

// The gradient of "inner" overwrites "inner".
void FeedForwardExpert::input_gradients(Step& step, const kernels::RowGroups& groups, const ExpertParameters& weights,
                                        base::View dy, base::View, const SavedSet& t, base::View dx) const {
  const auto inner = t["inner"], activated = t["activated"];
  const auto d_activated = step.exec.scratch().allocate(step.dtype, {activated.rows(), activated.cols()});
  const kernels::GroupedPart down{dy, weights(down_.weight)};
  kernels::grouped_linear_backward_input(step.exec, groups, {&down, 1}, 1, d_activated);
  if (inner_.size() == 1) kernels::activation_backward(step.exec, form_, inner, d_activated, inner);
  else
    kernels::gated_backward(step.exec, {.form = form_,
                                        .gate = part(inner, 0),
                                        .up = part(inner, 1),
                                        .dy = d_activated,
                                        .dgate = part(inner, 0),
                                        .dup = part(inner, 1)});
  std::vector<kernels::GroupedPart> parts;
  for (std::size_t i = 0; i < inner_.size(); ++i) parts.push_back({part(inner, i), weights(inner_[i].weight)});
  kernels::grouped_linear_backward_input(step.exec, groups, parts, lanes_, dx);
}

void FeedForwardExpert::weight_gradients(Step& step, const kernels::RowGroups& groups,
                                         const ExpertParameters& gradients, base::View dy, base::View x,
                                         const SavedSet& t) const {
  const auto of = [&](const Layer& layer, base::View d_output, base::View input) {
    kernels::grouped_linear_backward_weight(step.exec, groups, d_output, input, gradients(layer.weight),
                                            gradients(layer.bias));
  };
  of(down_, dy, t["activated"]);
  for (std::size_t i = 0; i < inner_.size(); ++i) of(inner_[i], part(t["inner"], i), x);
}

}  // namespace trainyard::model

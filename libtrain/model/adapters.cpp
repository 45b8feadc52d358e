// Low-rank adapters, forward and backward.
#include "libtrain/model/adapters.h"

#include "kernels/cast/cast.h"
#include "kernels/linear/linear.h"
#include "libtrain/model/shared_sum.h"
#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace trainyard::model {

namespace {

const params::Lease& weights_of(const Step& step) {
  TRAINYARD_ASSERT(step.adapter != nullptr, "a layer that has adapters leases them");
  return *step.adapter;
}

const params::Grads& gradients_of(const Step& step) {
  TRAINYARD_ASSERT(step.adapter_gradients != nullptr, "a layer that has adapters opens their gradients");
  return *step.adapter_gradients;
}

// y += x W^T.
void add_product(Step& step, base::View x, base::View weight, base::View y) {
  tensor::ArenaScope scope(step.exec.scratch());
  const auto more = step.exec.scratch().allocate(step.dtype, {y.rows(), y.cols()});
  kernels::linear_forward(step.exec, x, weight, {}, more);
  kernels::add(step.exec, y, more);
}

}  // namespace

Adapters::Adapters(const BranchSpec& spec) : model_(spec.model) {
  if (spec.adapter == nullptr) return;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const std::string layer(plan::adapter_targets[i].layer);
    pairs_[i] = {plan::find_index(*spec.adapter, layer + ".adapter_a"),
                 plan::find_index(*spec.adapter, layer + ".adapter_b")};
  }
}

const Adapters::Pair& Adapters::of(std::string_view target) const {
  const auto found = std::find_if(std::begin(plan::adapter_targets), std::end(plan::adapter_targets),
                                  [&](const auto& t) { return t.name == target; });
  TRAINYARD_ASSERT(found != std::end(plan::adapter_targets), "no adapter is for '{}'", target);
  return pairs_[static_cast<std::size_t>(found - std::begin(plan::adapter_targets))];
}

void Adapters::scale(Step& step, base::View inner) const {
  if (model_.adapter.scale() != 1) kernels::scale(step.exec, inner, model_.adapter.scale());
}

void Adapters::add_outputs(Step& step, base::View x, std::initializer_list<Columns> layers, const SavedSet& t) const {
  for (const auto& layer : layers) {
    const auto& [a, b] = of(layer.target);
    if (a < 0) continue;
    const auto inner = t[plan::adapter_tensor(layer.target)];
    kernels::linear_forward(step.exec, x, weights_of(step).weight(a), {}, inner);
    scale(step, inner);
    add_product(step, inner, weights_of(step).weight(b), layer.y);
  }
}

void Adapters::backward_outputs(Step& step, base::View x, std::initializer_list<Columns> layers, const SavedSet& t,
                                base::View dx) const {
  auto& scratch = step.exec.scratch();
  tensor::ArenaScope scope(scratch);
  const plan::Widths widths(model_, step.collectives->ranks());
  std::vector<kernels::LinearPart> parts;  // the gradients of A x of own rows, and A
  for (const auto& layer : layers)
    if (const auto& [a, b] = of(layer.target); a >= 0)
      parts.push_back({scratch.allocate(step.dtype, {dx.rows(), model_.adapter.rank}), weights_of(step).weight(a)});
  if (parts.empty()) return;
  for (std::size_t next = 0; const auto& layer : layers) {
    const auto& [a, b] = of(layer.target);
    if (a < 0) continue;
    const auto& dy = parts[next++].dy;
    const base::View d_inner(const_cast<void*>(dy.data), dy.dtype, {dy.rows(), dy.cols()}, dy.device);
    const kernels::LinearPart through_b{layer.y, weights_of(step).weight(b)};
    SharedInputGradient(step, {&through_b, 1}, widths, d_inner).finish();
    scale(step, d_inner);
    const auto& grads = gradients_of(step);
    tensor::ArenaScope gathered(scratch);
    const auto d_all = all_rows(step, d_inner);
    kernels::linear_backward_weight(step.exec, layer.y, t[plan::adapter_tensor(layer.target)], grads.gradient(b), {});
    kernels::linear_backward_weight(step.exec, d_all, x, grads.gradient(a), {});
  }
  const auto more = scratch.allocate(step.dtype, {dx.rows(), dx.cols()});
  kernels::linear_backward_input_lanes(step.exec, parts, 1, more, kernels::Neighbours::apart);
  kernels::add(step.exec, dx, more);
}

void Adapters::begin_inputs(Step& step, std::string_view target, base::View x, const SavedSet& t) const {
  const auto& [a, b] = of(target);
  if (a < 0) return;
  const auto inner = t[plan::adapter_tensor(target)];
  shared_forward(step, x, weights_of(step).weight(a), {}, plan::Widths(model_, step.collectives->ranks()), inner);
  scale(step, inner);
}

void Adapters::add_inputs(Step& step, std::string_view target, const SavedSet& t, base::View y) const {
  if (const auto& [a, b] = of(target); b >= 0)
    add_product(step, t[plan::adapter_tensor(target)], weights_of(step).weight(b), y);
}

void Adapters::backward_inputs(Step& step, const Rows& layer, const SavedSet& t) const {
  const auto& [a, b] = of(layer.target);
  if (a < 0) return;
  auto& scratch = step.exec.scratch();
  tensor::ArenaScope scope(scratch);
  const auto& grads = gradients_of(step);
  const auto d_inner = scratch.allocate(step.dtype, {layer.dy.rows(), model_.adapter.rank});
  kernels::linear_backward_input(step.exec, layer.dy, weights_of(step).weight(b), d_inner);
  scale(step, d_inner);
  {
    tensor::ArenaScope gathered(scratch);
    const auto inner = all_rows(step, t[plan::adapter_tensor(layer.target)]);
    kernels::linear_backward_weight(step.exec, layer.dy, inner, grads.gradient(b), {});
  }
  kernels::linear_backward_weight(step.exec, d_inner, layer.x, grads.gradient(a), {});
  const auto more = scratch.allocate(step.dtype, {layer.dx.rows(), layer.dx.cols()});
  kernels::linear_backward_input(step.exec, d_inner, weights_of(step).weight(a), more);
  kernels::add(step.exec, layer.dx, more);
}

}  // namespace trainyard::model

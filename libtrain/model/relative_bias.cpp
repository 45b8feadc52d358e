// From the table of a tower to the bias of a layer, and back.
#include "libtrain/model/relative_bias.h"

#include "kernels/relative_positions/relative_positions.h"
#include "libtrain/plan/spec/conditions.h"

namespace trainyard::model {

namespace {

std::vector<std::int32_t> borders_of(const plan::ModelConfig& m) {
  if (!plan::has_relative_positions(m)) return {};
  return plan::RelativeBuckets(plan::relative_bucket_rule(m)).borders();
}

kernels::RelativePositions positions_of(const Step& step, base::ConstView borders, bool bidirectional) {
  const auto tokens = step.micro.sequence();
  return {.borders = borders, .bidirectional = bidirectional, .queries = tokens, .keys = tokens};
}

}  // namespace

RelativeBias::RelativeBias(const plan::ModelConfig& of_layer)
    : borders_(borders_of(of_layer)), bidirectional_(plan::relative_bucket_rule(of_layer).bidirectional) {}

RelativeBias::Expanded RelativeBias::expand(Step& step) const {
  if (!exists()) return {};
  TRAINYARD_ASSERT(step.relative_positions != nullptr, "a layer has relative positions, and no table is leased");
  auto& scratch = step.exec.scratch();
  const auto table = step.relative_positions->weight(0);
  const auto buckets = std::ssize(borders_);
  const auto borders = scratch.allocate(base::DType::i32, {buckets});
  tensor::copy(step.exec, base::ConstView::of(borders_.data(), {buckets}), borders);
  const auto bias = scratch.allocate(shape_of(step).accumulation(), {table.cols(), 2 * step.micro.sequence() - 1});
  kernels::relative_positions_expand(step.exec, positions_of(step, borders, bidirectional_), table, bias);
  return {borders, bias};
}

base::View RelativeBias::gradient_place(Step& step, const Expanded& expanded) const {
  if (!exists()) return {};
  return step.exec.scratch().allocate(expanded.bias.dtype, {expanded.bias.rows(), expanded.bias.cols()});
}

void RelativeBias::fold(Step& step, const Expanded& expanded, base::View d_bias) const {
  if (!exists()) return;
  TRAINYARD_ASSERT(step.relative_positions_gradients != nullptr,
                   "a layer has relative positions, and no gradient of their table is open");
  if (!step.relative_positions_gradients->wanted()) return;
  kernels::relative_positions_fold(step.exec, positions_of(step, expanded.borders, bidirectional_), d_bias,
                                   step.relative_positions_gradients->gradient(0), kernels::FoldInto::overwrite);
}

}  // namespace trainyard::model

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

}  // namespace

RelativeBias::RelativeBias(const plan::ModelConfig& of_layer)
    : borders_(borders_of(of_layer)), bidirectional_(plan::relative_bucket_rule(of_layer).bidirectional) {}

RelativeBias::Expanded RelativeBias::expand(Step& step) const {
  return expand(step, step.micro.sequence(), step.micro.sequence());
}

// The distances of one key from so many queries are those of the last query, backwards: the first is of the first key.
RelativeBias::Expanded RelativeBias::expand_last(Step& step, std::int64_t tokens) const {
  return expand(step, tokens, 1);
}

RelativeBias::Expanded RelativeBias::expand(Step& step, std::int64_t queries, std::int64_t keys) const {
  if (!exists()) return {};
  TRAINYARD_ASSERT(step.relative_positions != nullptr, "a layer has relative positions, and no table is leased");
  auto& scratch = step.exec.scratch();
  const auto table = step.relative_positions->weight(0);
  const auto buckets = std::ssize(borders_);
  const auto borders = scratch.allocate(base::DType::i32, {buckets});
  tensor::copy(step.exec, base::ConstView::of(borders_.data(), {buckets}), borders);
  const auto bias = scratch.allocate(shape_of(step).accumulation(), {table.cols(), queries + keys - 1});
  kernels::relative_positions_expand(
      step.exec, {.borders = borders, .bidirectional = bidirectional_, .queries = queries, .keys = keys}, table, bias);
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
  const auto tokens = step.micro.sequence();
  kernels::relative_positions_fold(
      step.exec, {.borders = expanded.borders, .bidirectional = bidirectional_, .queries = tokens, .keys = tokens},
      d_bias, step.relative_positions_gradients->gradient(0), kernels::FoldInto::overwrite);
}

}  // namespace trainyard::model

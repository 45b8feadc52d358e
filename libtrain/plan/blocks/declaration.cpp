// Names, shapes and initial values.
#include "libtrain/plan/blocks/declaration.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/spec/conditions.h"

#include <cmath>
#include <utility>

namespace trainyard::plan {

namespace {
constexpr double spread = 0.02;

double of_inputs(std::int64_t in) { return 1 / std::sqrt(static_cast<double>(in)); }

std::optional<ShardedDim> sharded_of(Declaration::Shared shared) {
  if (shared == Declaration::Shared::none) return {};
  return ShardedDim{shared == Declaration::Shared::outputs ? 0 : 1, Axis::tensor};
}
}  // namespace

void Declaration::add(std::string_view name, std::vector<std::int64_t> shape, std::vector<std::int64_t> stored,
                      Init init, Decay decay, std::optional<ShardedDim> sharded) {
  auto full = flat_group_.name;
  full += '.';
  full += name;
  for (const auto& p : flat_group_.parameters)
    if (p.name == full)
      throw base::UsageError(fmt::format("flat group '{}' declares two parameters called '{}'", flat_group_.name, name),
                             "begin the names of a branch's parameters with its own prefix, and use each name once");
  flat_group_.parameters.push_back(
      {std::move(full), std::move(shape), std::move(stored), init, decay == Decay::yes, sharded});
  if (has_adapter(model_)) flat_group_.parameters.back().update.kind = Update::Kind::frozen;
}

void Declaration::parameter(std::string_view name, std::vector<std::int64_t> shape, Init init, Decay decay,
                            std::optional<ShardedDim> sharded) {
  auto stored = shape;
  add(name, std::move(shape), std::move(stored), init, decay, sharded);
}

void Declaration::weight(std::string_view name, std::int64_t out, std::int64_t in, Shared sharded) {
  const double deviation = has_fan_in_values(model_) ? of_inputs(in) : spread;
  parameter(name, {out, in}, {Init::Kind::normal, deviation}, Decay::yes, sharded_of(sharded));
}

void Declaration::residual_weight(std::string_view name, std::int64_t out, std::int64_t in, Shared sharded) {
  const double deviation =
      has_fan_in_values(model_) ? of_inputs(in) : spread / std::sqrt(2.0 * static_cast<double>(model_.layers));
  parameter(name, {out, in}, {Init::Kind::normal, deviation}, Decay::yes, sharded_of(sharded));
}

// Scores of keys of variance 1 have the variance head_dim (scale |q|)^2, which is to be 1.
void Declaration::query_weight(std::string_view name) {
  const double wanted = model_.query_scale > 0 ? of_inputs(model_.head_dim()) / model_.query_scale : 1;
  const double deviation = has_fan_in_values(model_) ? wanted * of_inputs(model_.hidden) : spread;
  parameter(name, {model_.query_width(), model_.hidden}, {Init::Kind::normal, deviation}, Decay::yes,
            sharded_of(Shared::outputs));
}

void Declaration::bias(std::string_view name, std::int64_t n, Shared sharded) {
  if (has_biases(model_)) parameter(name, {n}, {Init::Kind::zeros, 0}, Decay::no, sharded_of(sharded));
}

void Declaration::norm(std::string_view name) {
  const auto first = model_.norm_offset == 0 ? Init::Kind::ones : Init::Kind::zeros;  // weight and offset are 1
  parameter(std::string(name) + ".weight", {model_.hidden}, {first, 0}, Decay::no);
  if (subtracts_mean(model_))
    parameter(std::string(name) + ".bias", {model_.hidden}, {Init::Kind::zeros, 0}, Decay::no);
}

void Declaration::choice_bias(std::string_view name, std::int64_t experts, double rate, std::int64_t choices) {
  parameter(name, {experts}, {Init::Kind::zeros, 0}, Decay::no);
  if (!has_adapter(model_)) flat_group_.parameters.back().update = {Update::Kind::even_load, rate, choices};
}

void Declaration::vocabulary_table(std::string_view name, Decay decay) {
  const double deviation = !has_fan_in_values(model_) ? spread : decay == Decay::yes ? of_inputs(model_.hidden) : 1;
  add(name, {model_.vocabulary, model_.hidden}, {model_.stored_vocabulary(), model_.hidden},
      {Init::Kind::normal, deviation}, decay, ShardedDim{0, Axis::tensor});
}

void Declaration::positions_table(std::string_view name) {
  parameter(name, {model_.context + model_.position_offset, model_.hidden}, {Init::Kind::normal, spread}, Decay::no);
}

void Declaration::relative_positions_table(std::string_view name) {
  const double deviation = has_fan_in_values(model_) ? of_inputs(model_.hidden) : spread;
  parameter(name, {model_.relative_buckets, model_.heads}, {Init::Kind::normal, deviation}, Decay::no,
            ShardedDim{1, Axis::tensor});
}

}  // namespace trainyard::plan

// The declarations of blocks: names, shapes and initial values.
#include "libtrain/model/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard::model {

namespace {
constexpr double spread = 0.02;
std::string joined(const std::string& unit, std::string_view name) { return unit + "." + std::string(name); }
}  // namespace

int Declaration::add(plan::Parameter parameter) {
  unit_.parameters.push_back(std::move(parameter));
  return static_cast<int>(unit_.parameters.size()) - 1;
}

int Declaration::weight(std::string_view name, std::int64_t out, std::int64_t in) {
  return add({joined(unit_.name, name), {out, in}, {out, in}, {plan::Init::Kind::normal, spread}, true});
}

int Declaration::residual_weight(std::string_view name, std::int64_t out, std::int64_t in) {
  const double stddev = spread / std::sqrt(2.0 * static_cast<double>(model_.layers));
  return add({joined(unit_.name, name), {out, in}, {out, in}, {plan::Init::Kind::normal, stddev}, true});
}

int Declaration::bias(std::string_view name, std::int64_t n) {
  return model_.biases ? add({joined(unit_.name, name), {n}, {n}, {plan::Init::Kind::zeros, 0}, false}) : -1;
}

int Declaration::norm_weight(std::string_view name) {
  return add({joined(unit_.name, name), {model_.hidden}, {model_.hidden}, {plan::Init::Kind::ones, 0}, false});
}

int Declaration::norm_bias(std::string_view name) {
  if (model_.norm == plan::Norm::rms) return -1;
  return add({joined(unit_.name, name), {model_.hidden}, {model_.hidden}, {plan::Init::Kind::zeros, 0}, false});
}

int Declaration::vocabulary_table(std::string_view name, Decay decay) {
  return add({joined(unit_.name, name), {model_.vocabulary, model_.hidden}, {model_.stored_vocabulary(), model_.hidden},
              {plan::Init::Kind::normal, spread}, decay == Decay::yes});
}

int Declaration::positions_table(std::string_view name) {
  return add({joined(unit_.name, name), {model_.context, model_.hidden}, {model_.context, model_.hidden},
              {plan::Init::Kind::normal, spread}, false});
}

std::string layer_name(const plan::ModelConfig& model, std::int64_t layer) {
  const auto digits = std::max<std::size_t>(2, std::to_string(model.layers - 1).size());
  return fmt::format("layers.{:0{}}", layer, digits);
}

int unit_of_tokens() { return 0; }
int unit_of_positions() { return 1; }
int unit_of_layer(const plan::ModelConfig& model, std::int64_t layer) {
  return static_cast<int>(layer) + (model.positions == plan::Positions::learned ? 2 : 1);
}
int unit_of_head(const plan::ModelConfig& model) { return unit_of_layer(model, model.layers); }

}  // namespace trainyard::model

// Kinds and the table of parameters.
#include "libtrain/checkpoint/tensor_table.h"

#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>

namespace trainyard::checkpoint {

std::string path_of(const Kind& kind) { return kind == Kind::model ? "/model" : "/optimizer/" + kind.name(); }

std::string path_of(const Kind& kind, const std::string& parameter) { return path_of(kind) + "/" + parameter; }

base::DType dtype_of(const Kind& kind, base::DType working, base::DType states) {
  return kind == Kind::model ? working : kind == Kind::master ? base::DType::f32 : states;
}

base::DType dtype_of(const Kind& kind, const RunState& state) {
  return dtype_of(kind, state.dtype, state.optimizer.dtype);
}

std::vector<Kind> kinds_of(base::DType working, Contents contents, const StoredOptimizer& optimizer) {
  std::vector<Kind> kinds{Kind::model};
  if (contents == Contents::model) return kinds;
  if (base::is_narrow(working)) kinds.push_back(Kind::master);
  for (const auto& state : optimizer.states) kinds.push_back(Kind::state(state));
  return kinds;
}

std::vector<Kind> kinds_of(const RunState& state) { return kinds_of(state.dtype, state.contents, state.optimizer); }

bool has(const RunState& state, const Kind& kind) {
  const auto kinds = kinds_of(state);
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

Kind exact_weights(const RunState& state) { return has(state, Kind::master) ? Kind::master : Kind::model; }

std::vector<ParameterEntry> parameters_of(const plan::ModelConfig& model) {
  std::vector<ParameterEntry> all;
  for (const auto& flat_group : plan::flat_groups(model))
    for (const auto& p : flat_group.parameters)
      all.push_back({p.name, p.shape, p.count(), {}, p.update.kind == plan::Update::Kind::frozen});
  if (model.tied) all.front().aliases = {"head.weight"};
  return all;
}

void mark_frozen(const plan::ModelConfig& model, std::vector<ParameterEntry>& parameters) {
  if (!plan::has_adapter(model)) return;
  const auto expected = parameters_of(model);
  for (std::size_t i = 0; i < parameters.size() && expected.size() == parameters.size(); ++i)
    parameters[i].frozen = expected[i].frozen;
}

StateShape shape_of(const Kind& kind, const StoredOptimizer& optimizer) {
  if (!kind.is_state()) return StateShape::parameter;
  const auto found = optimizer.shapes.find(kind.name());
  return found == optimizer.shapes.end() ? StateShape::parameter : found->second;
}

KindTensors::KindTensors(const StoredOptimizer& optimizer, const std::vector<ParameterEntry>& parameters)
    : parameters_(&parameters) {
  for (const auto& [name, shape] : optimizer.shapes) {
    auto tensors = parameters;
    for (auto& t : tensors) {
      t.shape = plan::dims_of_state(shape, t.shape);
      t.count = t.shape.front();
    }
    factored_[Kind::state(name)] = {shape, std::move(tensors)};
  }
  if (std::none_of(parameters.begin(), parameters.end(), [](const auto& p) { return p.frozen; })) return;
  std::vector<Kind> kinds{Kind::master};
  for (const auto& state : optimizer.states) kinds.push_back(Kind::state(state));
  for (const auto& kind : kinds) {
    auto& of = factored_.try_emplace(kind, Factored{StateShape::parameter, parameters}).first->second;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].frozen) of.tensors[i].shape = {}, of.tensors[i].count = 0;
  }
}

const std::vector<ParameterEntry>& KindTensors::of(const Kind& kind) const {
  const auto found = factored_.find(kind);
  return found == factored_.end() ? *parameters_ : found->second.tensors;
}

bool KindTensors::has(const Kind& kind, std::size_t parameter) const {
  return kind == Kind::model || !(*parameters_)[parameter].frozen;
}

StateShape KindTensors::shape_of(const Kind& kind) const {
  const auto found = factored_.find(kind);
  return found == factored_.end() ? StateShape::parameter : found->second.shape;
}

}  // namespace trainyard::checkpoint

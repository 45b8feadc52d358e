// Kinds and the table of parameters.
#include "libtrain/checkpoint/tensor_table.h"

#include "libtrain/plan/blocks/inventory.h"

#include <algorithm>

namespace trainyard::checkpoint {

const char* path_of(Kind kind) {
  switch (kind) {
    case Kind::model: return "/model";
    case Kind::master: return "/optimizer/master";
    case Kind::m: return "/optimizer/m";
    case Kind::v: return "/optimizer/v";
  }
  return "";
}

base::DType dtype_of(Kind kind, base::DType working) { return kind == Kind::model ? working : base::DType::f32; }

std::vector<Kind> kinds_of(base::DType working, Contents contents) {
  if (contents == Contents::model) return {Kind::model};
  if (working == base::DType::f32) return {Kind::model, Kind::m, Kind::v};
  return {Kind::model, Kind::master, Kind::m, Kind::v};
}

std::vector<Kind> kinds_of(const RunState& state) { return kinds_of(state.dtype, state.contents); }

Kind exact_weights(const RunState& state) {
  const auto kinds = kinds_of(state);
  return std::find(kinds.begin(), kinds.end(), Kind::master) != kinds.end() ? Kind::master : Kind::model;
}

std::vector<ParameterEntry> parameters_of(const plan::ModelConfig& model) {
  std::vector<ParameterEntry> all;
  for (const auto& flat_group : plan::flat_groups(model))
    for (const auto& p : flat_group.parameters) all.push_back({p.name, p.shape, p.count(), {}});
  if (model.tied) all.front().aliases = {"head.weight"};
  return all;
}

}  // namespace trainyard::checkpoint

// The units of a decoder and the flat layout of one.
#include "libtrain/plan/inventory.h"

#include "libtrain/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace trainyard::plan {

namespace {

std::int64_t product(const std::vector<std::int64_t>& dims) {
  std::int64_t n = 1;
  for (auto d : dims) n *= d;
  return n;
}

Parameter weight(const std::string& name, std::int64_t out, std::int64_t in, double stddev) {
  return {name, {out, in}, {out, in}, {Init::Kind::normal, stddev}, true};
}

Parameter vocabulary_table(const ModelConfig& m, const std::string& name, bool decay) {
  return {name, {m.vocabulary, m.hidden}, {m.stored_vocabulary(), m.hidden}, {Init::Kind::normal, 0.02}, decay};
}

Parameter vector_of(const std::string& name, std::int64_t n, Init::Kind kind) { return {name, {n}, {n}, {kind, 0}, false}; }

void add_norm(std::vector<Parameter>& out, const ModelConfig& m, const std::string& name) {
  out.push_back(vector_of(name + ".weight", m.hidden, Init::Kind::ones));
  if (m.norm == Norm::layer) out.push_back(vector_of(name + ".bias", m.hidden, Init::Kind::zeros));
}

void add_bias(std::vector<Parameter>& out, const ModelConfig& m, const std::string& name, std::int64_t n) {
  if (m.biases) out.push_back(vector_of(name + ".bias", n, Init::Kind::zeros));
}

Unit layer_unit(const ModelConfig& m, const std::string& name) {
  const double spread = 0.02, residual = 0.02 / std::sqrt(2.0 * static_cast<double>(m.layers));
  const auto kv = m.kv_heads * m.head_dim();
  Unit unit{name, {}};
  auto& p = unit.parameters;
  add_norm(p, m, name + ".attention_norm");
  const auto attention = name + ".attention.";
  p.push_back(weight(attention + "q.weight", m.hidden, m.hidden, spread));
  p.push_back(weight(attention + "k.weight", kv, m.hidden, spread));
  p.push_back(weight(attention + "v.weight", kv, m.hidden, spread));
  add_bias(p, m, attention + "q", m.hidden);
  add_bias(p, m, attention + "k", kv);
  add_bias(p, m, attention + "v", kv);
  p.push_back(weight(attention + "output.weight", m.hidden, m.hidden, residual));
  add_bias(p, m, attention + "output", m.hidden);
  add_norm(p, m, name + ".ffn_norm");
  if (m.activation == Activation::swiglu) {
    p.push_back(weight(name + ".ffn.gate.weight", m.ffn, m.hidden, spread));
    add_bias(p, m, name + ".ffn.gate", m.ffn);
  }
  p.push_back(weight(name + ".ffn.up.weight", m.ffn, m.hidden, spread));
  add_bias(p, m, name + ".ffn.up", m.ffn);
  p.push_back(weight(name + ".ffn.down.weight", m.hidden, m.ffn, residual));
  add_bias(p, m, name + ".ffn.down", m.hidden);
  return unit;
}

}  // namespace

std::int64_t Parameter::count() const { return product(shape); }
std::int64_t Parameter::stored_count() const { return product(stored); }

std::vector<Unit> units(const ModelConfig& m) {
  std::vector<Unit> out;
  out.push_back({"embedding.tokens", {vocabulary_table(m, "embedding.tokens.weight", false)}});
  if (m.positions == Positions::learned) {
    auto table = weight("embedding.positions.weight", m.context, m.hidden, 0.02);
    table.decay = false;
    out.push_back({"embedding.positions", {table}});
  }
  const auto digits = std::max<std::size_t>(2, std::to_string(m.layers - 1).size());
  for (std::int64_t i = 0; i < m.layers; ++i) out.push_back(layer_unit(m, fmt::format("layers.{:0{}}", i, digits)));
  Unit head{"head", {}};
  add_norm(head.parameters, m, "head.norm");
  if (!m.tied) head.parameters.push_back(vocabulary_table(m, "head.weight", true));
  out.push_back(head);
  return out;
}

std::int64_t parameter_count(const ModelConfig& m) {
  std::int64_t n = 0;
  for (const auto& unit : units(m))
    for (const auto& p : unit.parameters) n += p.count();
  return n;
}

UnitLayout layout(const Unit& unit, int pieces) {
  TRAINYARD_ASSERT(pieces >= 1, "{} pieces", pieces);
  UnitLayout l;
  for (const auto& p : unit.parameters) {
    l.offsets.push_back((l.used + 15) / 16 * 16);
    l.used = l.offsets.back() + p.stored_count();
  }
  const std::int64_t grain = std::int64_t{64} * pieces;
  l.padded = (l.used + grain - 1) / grain * grain;
  l.piece = l.padded / pieces;
  return l;
}

std::vector<Use> uses(const ModelConfig& m) {
  std::vector<Use> out;
  const auto n = static_cast<int>(units(m).size());
  for (int u = 0; u < n; ++u) out.push_back({u, 0});
  if (m.tied) out.push_back({0, 1});
  return out;
}

}  // namespace trainyard::plan

// RunState and ModelConfig as JSON.
#include "libtrain/checkpoint/run_state.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"

namespace trainyard::checkpoint {

using nlohmann::json;

json model_to_json(const plan::ModelConfig& m) {
  return {{"name", m.name},
          {"layers", m.layers},
          {"hidden", m.hidden},
          {"heads", m.heads},
          {"kv_heads", m.kv_heads},
          {"ffn", m.ffn},
          {"vocabulary", m.vocabulary},
          {"context", m.context},
          {"norm", m.norm == plan::Norm::layer ? "layer" : "rms"},
          {"positions", m.positions == plan::Positions::learned ? "learned" : "rotary"},
          {"activation", m.activation == plan::Activation::gelu_tanh ? "gelu_tanh" : "swiglu"},
          {"biases", m.biases},
          {"tied", m.tied},
          {"dropout_embedding", m.dropout_embedding},
          {"dropout_attention", m.dropout_attention},
          {"dropout_attention_residual", m.dropout_attention_residual},
          {"dropout_ffn_residual", m.dropout_ffn_residual},
          {"norm_epsilon", m.norm_epsilon},
          {"rotary_base", m.rotary_base}};
}

namespace {

using Object = base::SortedJsonObject;

template <class E> E choice(Object& o, const char* key, std::initializer_list<std::pair<const char*, E>> legal) {
  const auto value = o.text(key);
  for (const auto& [name, e] : legal)
    if (value == name) return e;
  throw base::InputError(fmt::format("{}: {} = {} is unknown to this build", o.where(), key, base::excerpt(value)));
}

const json& object_of(Object& o, const char* key) {
  o.object(key);
  return o.at(key);
}

}  // namespace

plan::ModelConfig model_from_json(const json& j, const std::string& where) {
  Object o(j, where);
  plan::ModelConfig m;
  m.name = o.text("name");
  m.layers = o.integer("layers");
  m.hidden = o.integer("hidden");
  m.heads = o.integer("heads");
  m.kv_heads = o.integer("kv_heads");
  m.ffn = o.integer("ffn");
  m.vocabulary = o.integer("vocabulary");
  m.context = o.integer("context");
  m.norm = choice<plan::Norm>(o, "norm", {{"layer", plan::Norm::layer}, {"rms", plan::Norm::rms}});
  m.positions = choice<plan::Positions>(o, "positions", {{"learned", plan::Positions::learned}, {"rotary", plan::Positions::rotary}});
  m.activation = choice<plan::Activation>(o, "activation", {{"gelu_tanh", plan::Activation::gelu_tanh}, {"swiglu", plan::Activation::swiglu}});
  m.biases = o.boolean("biases");
  m.tied = o.boolean("tied");
  m.dropout_embedding = o.number("dropout_embedding");
  m.dropout_attention = o.number("dropout_attention");
  m.dropout_attention_residual = o.number("dropout_attention_residual");
  m.dropout_ffn_residual = o.number("dropout_ffn_residual");
  m.norm_epsilon = o.number("norm_epsilon");
  m.rotary_base = o.number("rotary_base");
  return m;
}

json state_to_json(const RunState& s) {
  return {{"step", s.step},
          {"samples_seen", s.samples_seen},
          {"tokens_seen", s.tokens_seen},
          {"seed", s.seed},
          {"dtype", base::name_of(s.dtype)},
          {"model", model_to_json(s.model)},
          {"identity", s.identity},
          {"plan", s.plan},
          {"versions", s.versions},
          {"provenance", s.provenance},
          {"isa", s.isa},
          {"device_kind", s.device_kind}};
}

RunState state_from_json(const json& j, const std::string& where) {
  Object o(j, where);
  RunState s;
  s.step = o.integer("step", 0);
  s.samples_seen = o.integer("samples_seen", 0);
  s.tokens_seen = o.integer("tokens_seen", 0);
  s.seed = o.unsigned_integer("seed");
  s.dtype = choice<base::DType>(o, "dtype", {{"f32", base::DType::f32}, {"bf16", base::DType::bf16}});
  s.model = model_from_json(o.at("model"), where + ": model");
  s.identity = object_of(o, "identity");
  s.plan = object_of(o, "plan");
  s.versions = object_of(o, "versions");
  s.provenance = object_of(o, "provenance");
  s.isa = o.text("isa");
  s.device_kind = o.text("device_kind");
  return s;
}

}  // namespace trainyard::checkpoint

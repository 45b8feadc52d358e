// RunState and ModelConfig as JSON.
#include "libtrain/checkpoint/run_state.h"

#include "libtrain/base/error.h"

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

template <class E> E choice(const json& j, const char* key, std::initializer_list<std::pair<const char*, E>> legal) {
  const auto value = j.at(key).get<std::string>();
  for (const auto& [name, e] : legal)
    if (value == name) return e;
  throw base::InputError(fmt::format("{} = \"{}\" is unknown to this build", key, value));
}

template <class F> auto guarded(const std::string& where, F&& f) {
  try {
    return f();
  } catch (const json::exception& e) {
    throw base::InputError(fmt::format("{}: {}", where, e.what()), "the file was not written by this program, or by a much older or newer one");
  } catch (const base::Error& e) {
    throw base::InputError(fmt::format("{}: {}", where, e.what()), e.hint());
  }
}

}  // namespace

plan::ModelConfig model_from_json(const json& j, const std::string& where) {
  return guarded(where, [&] {
    plan::ModelConfig m;
    m.name = j.at("name");
    m.layers = j.at("layers");
    m.hidden = j.at("hidden");
    m.heads = j.at("heads");
    m.kv_heads = j.at("kv_heads");
    m.ffn = j.at("ffn");
    m.vocabulary = j.at("vocabulary");
    m.context = j.at("context");
    m.norm = choice<plan::Norm>(j, "norm", {{"layer", plan::Norm::layer}, {"rms", plan::Norm::rms}});
    m.positions = choice<plan::Positions>(j, "positions", {{"learned", plan::Positions::learned}, {"rotary", plan::Positions::rotary}});
    m.activation = choice<plan::Activation>(j, "activation", {{"gelu_tanh", plan::Activation::gelu_tanh}, {"swiglu", plan::Activation::swiglu}});
    m.biases = j.at("biases");
    m.tied = j.at("tied");
    m.dropout_embedding = j.at("dropout_embedding");
    m.dropout_attention = j.at("dropout_attention");
    m.dropout_attention_residual = j.at("dropout_attention_residual");
    m.dropout_ffn_residual = j.at("dropout_ffn_residual");
    m.norm_epsilon = j.at("norm_epsilon");
    m.rotary_base = j.at("rotary_base");
    return m;
  });
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
  return guarded(where, [&] {
    RunState s;
    s.step = j.at("step");
    s.samples_seen = j.at("samples_seen");
    s.tokens_seen = j.at("tokens_seen");
    s.seed = j.at("seed");
    s.dtype = base::dtype_from_name(j.at("dtype").get<std::string>());
    s.model = model_from_json(j.at("model"), where + ", model");
    s.identity = j.at("identity");
    s.plan = j.at("plan");
    s.versions = j.at("versions");
    s.provenance = j.at("provenance");
    s.isa = j.at("isa");
    s.device_kind = j.at("device_kind");
    return s;
  });
}

}  // namespace trainyard::checkpoint

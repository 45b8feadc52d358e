// Keys and tensors that families of causal decoders share.
#include "libtrain/checkpoint/hugging_face_decoder.h"

#include "libtrain/base/index.h"
#include "libtrain/base/text.h"

#include <algorithm>
#include <cmath>

namespace trainyard::checkpoint {

namespace {

using plan::Activation, plan::Biases, plan::ModelConfig, plan::RotaryScaling;

constexpr const char *full = "full_attention", *sliding = "sliding_attention";

// One of the objects that hold angles. Returns whether a type of scaling was named.
class RotaryKeys {
 public:
  RotaryKeys(ConfigKeys& outer, const char* key, const std::string& where, std::vector<std::string>& objections)
      : outer_(outer), key_(key), keys_(outer.value(key), fmt::format("{}: {}", where, key), objections) {}

  void take(ModelConfig& m, const UsualAngles& usual) {
    m.rotary_base = keys_.number("rope_theta", m.rotary_base);
    m.rotary.fraction = keys_.number("partial_rotary_factor", m.rotary.fraction);
    take_scaling(m);
    if (m.rotary.scaling != RotaryScaling::none && !usual.scaled)
      outer_.object_to("'{}' is of type {}, which this family does not have", key_, base::excerpt(type()));
    for (const auto& name : keys_.unknown())
      outer_.object_to("'{}' has the key {}, which angles of this type do not have", key_, base::excerpt(name));
  }

 private:
  std::string type() {
    for (const char* name : {"rope_type", "type"})
      if (keys_.has(name)) return keys_.text(name, "default");
    return "default";
  }

  void take_scaling(ModelConfig& m) {
    const auto name = type();
    keys_.pass_over({"rope_type", "type"});
    auto& r = m.rotary;
    if (name == "default") {
      if (keys_.number("factor", 1) != 1) outer_.object_to("'{}' has a factor, but no type that uses it", key_);
      return;
    }
    if (name == "linear") r.scaling = RotaryScaling::linear;
    else if (name == "llama3") r.scaling = RotaryScaling::llama3;
    else if (name == "yarn") r.scaling = RotaryScaling::yarn;
    else {
      outer_.object_to("'{}' is of type {}: of scaled angles linear, llama3 and yarn are computed here", key_,
                       base::excerpt(name));
      keys_.pass_over_all();
      return;
    }
    const auto original = keys_.integer("original_max_position_embeddings", m.context);
    r.factor =
        factor(name == "yarn" && original > 0 ? static_cast<double>(m.context) / static_cast<double>(original) : 0);
    if (r.scaling == RotaryScaling::linear) return take_no_scaling(r);
    r.original = original;
    if (r.scaling == RotaryScaling::llama3) {
      r.low = keys_.number("low_freq_factor", 1), r.high = keys_.number("high_freq_factor", 4);
      return take_no_scaling(r);
    }
    r.beta_fast = keys_.number("beta_fast", 32), r.beta_slow = keys_.number("beta_slow", 1);
    r.attention_factor = attention_factor(r.factor);
    if (keys_.is_null("truncate") || !keys_.boolean("truncate", true))
      outer_.object_to("'{}' has truncate false: the ramp begins and ends at whole pairs here", key_);
    take_no_scaling(r);
  }

  // `of_null`: what null stands for; 0: nothing.
  double factor(double of_null) {
    const auto factor = keys_.number("factor", keys_.is_null("factor") ? of_null : 0);
    if (factor == 0) outer_.object_to("'{}' has no factor", key_);
    else if (factor < 1) outer_.object_to("'{}' has the factor {}: here it is 1 or more", key_, factor);
    return factor;
  }

  // Of cosines and sines in YaRN; 0: the usual one. The two keys of DeepSeek count together, or not at all.
  double attention_factor(double factor) {
    const auto of = [factor](double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; };
    const auto above = keys_.number("mscale", 0), below = keys_.number("mscale_all_dim", 0);
    const auto usual = above != 0 && below != 0 ? of(above) / of(below) : 0;
    return keys_.number("attention_factor", usual);
  }

  // A factor of 1 changes no angle.
  static void take_no_scaling(plan::RotaryConfig& r) {
    if (r.factor != 1 || (r.attention_factor != 0 && r.attention_factor != 1)) return;
    plan::RotaryConfig none;
    none.fraction = r.fraction, none.local_base = r.local_base;
    r = none;
  }

  ConfigKeys& outer_;
  const char* key_;
  ConfigKeys keys_;
};

// The shortest list that gives the same windows when it is repeated.
std::vector<std::int64_t> shortest_cycle(const std::vector<std::int64_t>& all) {
  for (std::size_t n = 1; n < all.size(); ++n) {
    bool same = true;
    for (std::size_t i = n; i < all.size() && same; ++i) same = all[i] == all[i % n];
    if (same) return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)};
  }
  return all;
}

std::int64_t window_at(const ModelConfig& m, std::int64_t layer) {
  const auto& all = m.attention.window_tokens;
  return all[base::size(layer) % all.size()];
}

}  // namespace

void take_decoder(ConfigKeys& keys, ModelConfig& m, std::int64_t usual_kv_heads) {
  m.norm = plan::Norm::rms, m.positions = plan::Positions::rotary, m.activation = Activation::swiglu;
  m.biases = Biases::off;
  m.layers = keys.integer("num_hidden_layers"), m.hidden = keys.integer("hidden_size");
  m.heads = keys.integer("num_attention_heads");
  const bool all = usual_kv_heads == 0 || keys.is_null("num_key_value_heads");
  m.kv_heads = keys.integer("num_key_value_heads", all ? m.heads : usual_kv_heads);
  m.ffn = keys.integer("intermediate_size"), m.vocabulary = keys.integer("vocab_size");
  m.context = keys.integer("max_position_embeddings");
  m.dropout_attention = keys.number("attention_dropout", 0);
  const bool divides = m.heads > 0 && m.hidden % m.heads == 0;
  if (keys.has("head_dim"))
    if (const auto size = keys.integer("head_dim"); !divides || size != m.hidden / m.heads) m.head_size = size;
}

nlohmann::ordered_json decoder_config(const ModelConfig& m) {
  return {{"num_hidden_layers", m.layers},
          {"hidden_size", m.hidden},
          {"num_attention_heads", m.heads},
          {"num_key_value_heads", m.kv_heads},
          {"head_dim", m.head_dim()},
          {"intermediate_size", m.ffn},
          {"vocab_size", m.vocabulary},
          {"max_position_embeddings", m.context},
          {"attention_dropout", m.dropout_attention}};
}

void take_rotary(ConfigKeys& keys, ModelConfig& m, const std::string& where, UsualAngles usual) {
  m.rotary_base = keys.number("rope_theta", usual.base);
  m.rotary.fraction = keys.number("partial_rotary_factor", usual.fraction);
  const auto given = [&](const char* key) { return keys.has(key) && !keys.value(key).empty(); };
  const bool older = given("rope_scaling");
  if (older || given("rope_parameters"))
    RotaryKeys(keys, older ? "rope_scaling" : "rope_parameters", where, keys.objections()).take(m, usual);
  keys.pass_over({"rope_parameters"});
  if (m.rotary_base < 1.001) keys.object_to("'rope_theta' is {}: here it is 1.001 or more", m.rotary_base);
  if (!usual.of_parts && m.rotary.fraction != 1)
    keys.object_to("'partial_rotary_factor' is {}: in this family whole heads rotate", m.rotary.fraction);
}

void put_rotary(nlohmann::ordered_json& config, const ModelConfig& m) {
  const auto& r = m.rotary;
  config["rope_theta"] = m.rotary_base;
  auto& scaling = config["rope_scaling"] = nullptr;
  if (r.scaling == RotaryScaling::linear) {
    scaling = {{"rope_type", "linear"}, {"factor", r.factor}};
  } else if (r.scaling == RotaryScaling::llama3) {
    scaling = {{"rope_type", "llama3"},
               {"factor", r.factor},
               {"low_freq_factor", r.low},
               {"high_freq_factor", r.high},
               {"original_max_position_embeddings", r.original}};
  } else if (r.scaling == RotaryScaling::yarn) {
    scaling = {{"rope_type", "yarn"},
               {"factor", r.factor},
               {"original_max_position_embeddings", r.original},
               {"beta_fast", r.beta_fast},
               {"beta_slow", r.beta_slow}};
    if (r.attention_factor != 0) scaling["attention_factor"] = r.attention_factor;
  }
}

std::int64_t take_window(ConfigKeys& keys, std::int64_t usual) {
  if (keys.is_null("sliding_window")) return 0;
  const auto window = keys.integer("sliding_window", usual);
  if (window < 1 && keys.has("sliding_window")) keys.object_to("'sliding_window' is {}: here it is above 0", window);
  return std::max<std::int64_t>(window, 0);
}

void take_layer_types(ConfigKeys& keys, ModelConfig& m, std::int64_t window, std::int64_t full_each) {
  const auto layers = std::clamp<std::int64_t>(m.layers, 0, 10000);
  std::vector<std::int64_t> all;
  if (keys.has("layer_types")) {
    const auto& types = keys.value("layer_types");
    const bool known = types.is_array() && static_cast<std::int64_t>(types.size()) == layers &&
                       std::all_of(types.begin(), types.end(), [](const auto& t) { return t == full || t == sliding; });
    if (!known)
      return keys.object_to("'layer_types' is no list of full_attention and sliding_attention for each layer");
    for (const auto& type : types) all.push_back(type == sliding ? window : 0);
    if (window < 1 && std::find(types.begin(), types.end(), sliding) != types.end())
      keys.object_to("'layer_types' has sliding_attention, and there is no window");
  } else {
    for (std::int64_t layer = 1; layer <= layers; ++layer)
      all.push_back(full_each > 0 && layer % full_each == 0 ? 0 : window);
  }
  if (!all.empty()) m.attention.window_tokens = shortest_cycle(all);
}

void take_same_window(ConfigKeys& keys, ModelConfig& m, std::int64_t usual) {
  const auto window = take_window(keys, usual);
  m.attention.window_tokens = {window};
  if (!keys.has("layer_types")) return;
  const auto& types = keys.value("layer_types");
  const auto* type = window > 0 ? sliding : full;
  if (!types.is_array() || !std::all_of(types.begin(), types.end(), [&](const auto& t) { return t == type; }))
    keys.object_to("'layer_types' has types other than {}, which all layers of this family have with {}", type,
                   window > 0 ? fmt::format("a window of {}", window) : "no window");
}

nlohmann::ordered_json window_of(const ModelConfig& m) {
  for (const auto window : m.attention.window_tokens)
    if (window > 0) return window;
  return nullptr;
}

void put_layer_types(nlohmann::ordered_json& config, const ModelConfig& m) {
  auto types = nlohmann::ordered_json::array();
  for (std::int64_t layer = 0; layer < m.layers; ++layer) types.push_back(window_at(m, layer) > 0 ? sliding : full);
  config["layer_types"] = types;
}

void take_attention_biases(ConfigKeys& keys, ModelConfig& m) {
  if (keys.boolean("attention_bias", false)) m.biases = Biases::attention;
}

bool has_attention_biases(const ModelConfig& m) { return m.biases == Biases::attention; }

void take_usual_head(ConfigKeys& keys, ModelConfig& m, std::int64_t usual) {
  if (keys.has("head_dim") || m.heads < 1) return;
  if (m.hidden % m.heads != 0 || usual != m.hidden / m.heads) m.head_size = usual;
}

std::string gate_name(const ModelConfig& m) {
  switch (m.activation) {
    case Activation::geglu_tanh: return "gelu_pytorch_tanh";
    case Activation::geglu_erf: return "gelu";
    default: return "silu";
  }
}

void take_gated_activation(ConfigKeys& keys, ModelConfig& m, const char* key, const char* usual) {
  const auto f = keys.text(key, usual);
  if (f == "silu" || f == "swish") m.activation = Activation::swiglu;
  else if (is_tanh_gelu(f)) m.activation = Activation::geglu_tanh;
  else if (f == "gelu") m.activation = Activation::geglu_erf;
  else
    keys.object_to("'{}' is {}: as a gate silu, gelu and gelu_pytorch_tanh are computed here", key, base::excerpt(f));
}

std::vector<ForeignRule> gated_ffn_rules() {
  using enum ForeignRule::Layout;
  return {{"@layers.{}.mlp.gate_proj.weight", same, {"{}.ffn.gate.weight"}},
          {"@layers.{}.mlp.gate_proj.bias", same, {"{}.ffn.gate.bias"}},
          {"@layers.{}.mlp.up_proj.weight", same, {"{}.ffn.up.weight"}},
          {"@layers.{}.mlp.up_proj.bias", same, {"{}.ffn.up.bias"}},
          {"@layers.{}.mlp.down_proj.weight", same, {"{}.ffn.down.weight"}},
          {"@layers.{}.mlp.down_proj.bias", same, {"{}.ffn.down.bias"}}};
}

std::vector<ForeignRule> decoder_rules(const DecoderNorms& norms, const std::vector<ForeignRule>& ffn) {
  using enum ForeignRule::Layout;
  std::vector<ForeignRule> out{{"@embed_tokens.weight", same, {"embedding.tokens.weight"}}};
  const auto norm = [&](const char* theirs, const char* ours) {
    if (theirs != nullptr) out.push_back({theirs, same, {ours}});
  };
  norm(norms.before_attention, "{}.attention_norm.weight");
  for (const auto& [theirs, ours] : {std::pair{"@layers.{}.self_attn.q_proj.weight", "{}.attention.q.weight"},
                                     {"@layers.{}.self_attn.q_proj.bias", "{}.attention.q.bias"},
                                     {"@layers.{}.self_attn.k_proj.weight", "{}.attention.k.weight"},
                                     {"@layers.{}.self_attn.k_proj.bias", "{}.attention.k.bias"},
                                     {"@layers.{}.self_attn.v_proj.weight", "{}.attention.v.weight"},
                                     {"@layers.{}.self_attn.v_proj.bias", "{}.attention.v.bias"},
                                     {"@layers.{}.self_attn.q_norm.weight", "{}.attention.q_norm.weight"},
                                     {"@layers.{}.self_attn.k_norm.weight", "{}.attention.k_norm.weight"},
                                     {"@layers.{}.self_attn.o_proj.weight", "{}.attention.output.weight"},
                                     {"@layers.{}.self_attn.o_proj.bias", "{}.attention.output.bias"}})
    out.push_back({theirs, same, {ours}});
  const bool inside = norms.before_attention == nullptr;  // then the norm behind a branch is its only one
  norm(norms.after_attention, inside ? "{}.attention_norm.weight" : "{}.attention_post_norm.weight");
  norm(norms.before_ffn, "{}.ffn_norm.weight");
  out.insert(out.end(), ffn.begin(), ffn.end());
  norm(norms.after_ffn, inside ? "{}.ffn_norm.weight" : "{}.ffn_post_norm.weight");
  out.push_back({"@norm.weight", same, {"head.norm.weight"}});
  out.push_back({head_name, same, {"head.weight"}});
  return out;
}

}  // namespace trainyard::checkpoint

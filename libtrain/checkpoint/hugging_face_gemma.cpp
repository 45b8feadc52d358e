// Families with norms behind their branches: Gemma 2 and 3 (text), OLMo 2.
#include "libtrain/checkpoint/hugging_face_decoder.h"

#include <cmath>

namespace trainyard::checkpoint {

namespace {

using nlohmann::json, nlohmann::ordered_json;
using plan::ModelConfig, plan::NormPosition;

// Gemma Team 2024, "Gemma 2: improving open language models at a practical size". Norms multiply by weight + 1, and the
// embedding is multiplied by the square root of its width.
void take_gemma(ConfigKeys& keys, ModelConfig& m) {
  take_decoder(keys, m, 4);
  take_usual_head(keys, m, 256);
  m.norm_position = NormPosition::sandwich, m.norm_offset = 1;
  m.embedding_scale = std::sqrt(static_cast<double>(std::clamp<std::int64_t>(m.hidden, 0, 1 << 20)));
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-6);
  m.tied = keys.boolean("tie_word_embeddings", true);
  take_attention_biases(keys, m);
  take_gated_activation(keys, m, "hidden_activation", "gelu_pytorch_tanh");
  keys.pass_over({"hidden_act", "cache_implementation"});  // transformers does not read it either
  // The scores are divided by the square root of this number.
  const auto scalar = keys.number("query_pre_attn_scalar", 256);
  if (scalar <= 0) keys.object_to("'query_pre_attn_scalar' is {}", scalar);
  else if (m.heads > 0 && scalar != static_cast<double>(m.head_dim())) m.query_scale = 1 / std::sqrt(scalar);
  keys.require("use_bidirectional_attention", false);
}

// The whole number that is nearest, because transformers reads no other.
ordered_json scalar_of(const ModelConfig& m) {
  if (m.query_scale == 0) return m.head_dim();
  return static_cast<std::int64_t>(std::round(std::min(1 / (m.query_scale * m.query_scale), 1e15)));
}

constexpr std::int64_t usual_window = 4096;

ordered_json cap_of(double cap) { return cap == 0 ? ordered_json() : ordered_json(cap); }

ordered_json gemma_config(const ModelConfig& m, double softcap) {
  auto config = decoder_config(m);
  config["attention_bias"] = has_attention_biases(m);
  config["hidden_activation"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  config["query_pre_attn_scalar"] = scalar_of(m);
  config["attn_logit_softcapping"] = cap_of(softcap);
  config["final_logit_softcapping"] = cap_of(m.logit_softcap);
  put_rotary(config, m);
  config["sliding_window"] = window_of(m).is_null() ? ordered_json(usual_window) : window_of(m);  // null does not run
  put_layer_types(config, m);
  return config;
}

ModelConfig gemma2_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                         std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_gemma(keys, m);
  // An absent key has its usual value; null means no cap.
  m.attention.softcap = keys.is_null("attn_logit_softcapping") ? 0 : keys.number("attn_logit_softcapping", 50);
  m.logit_softcap = keys.is_null("final_logit_softcapping") ? 0 : keys.number("final_logit_softcapping", 30);
  take_rotary(keys, m, where, {10000});
  take_layer_types(keys, m, take_window(keys, usual_window), 2);
  take_usual(keys);
  unknown = keys.unknown();
  return m;
}

ordered_json gemma2_config(const ModelConfig& m) { return gemma_config(m, m.attention.softcap); }

// The angles of layers that see all tokens, as transformers merges them: "rope_scaling" into the part of
// "rope_parameters" for full_attention. Newer files have a part for each type of layer.
json whole_angles(ConfigKeys& keys) {
  auto angles = json::object({{"rope_type", "default"}});
  if (keys.has("rope_parameters")) {
    const auto& both = keys.value("rope_parameters");
    const bool parts = both.is_object() && (both.contains("full_attention") || both.contains("sliding_attention"));
    if (!parts && !both.empty())
      keys.object_to("'rope_parameters' has no full_attention and no sliding_attention, and nothing else is read here");
    if (parts && both.contains("full_attention") && !both["full_attention"].is_null()) angles = both["full_attention"];
  }
  if (keys.has("rope_scaling")) {
    const auto& scaling = keys.value("rope_scaling");
    if (scaling.is_object() && angles.is_object()) angles.update(scaling);
    else keys.object_to("'rope_scaling' is no object");
  }
  return angles;
}

void take_local_angles(ConfigKeys& keys, ModelConfig& m, const std::string& where) {
  m.rotary.local_base = keys.number("rope_local_base_freq", 10000);
  if (!keys.has("rope_parameters") || !keys.value("rope_parameters").is_object()) return;
  const auto local = keys.value("rope_parameters").value("sliding_attention", json());
  if (local.is_null()) return;
  ConfigKeys of_window(local, where + ": rope_parameters: sliding_attention", keys.objections());
  m.rotary.local_base = of_window.number("rope_theta", m.rotary.local_base);
  if (of_window.text("rope_type", of_window.text("type", "default").c_str()) != "default" ||
      of_window.number("partial_rotary_factor", 1) != 1 || !of_window.unknown().empty())
    keys.object_to("'rope_parameters' scales the angles of sliding_attention: here those have no scaling");
}

// Gemma Team 2025, "Gemma 3 technical report": layers with a window have a rotary base of their own.
ModelConfig gemma3_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                         std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_gemma(keys, m);
  m.qk_norm = plan::QkNorm::head;
  keys.pass_over({"attn_logit_softcapping"});  // stored by transformers, and never used
  m.logit_softcap = keys.number("final_logit_softcapping", 0);
  take_local_angles(keys, m, where);
  auto flat = config;
  flat.erase("rope_scaling");
  flat["rope_parameters"] = whole_angles(keys);
  ConfigKeys angles(flat, where, objections);
  take_rotary(angles, m, where, {1e6});
  keys.pass_over({"rope_theta", "partial_rotary_factor", "_sliding_window_pattern"});
  const auto each = keys.integer("sliding_window_pattern", 6);
  if (each < 1) keys.object_to("'sliding_window_pattern' is {}", each);
  take_layer_types(keys, m, take_window(keys, usual_window), std::max<std::int64_t>(each, 1));
  if (window_of(m).is_null()) m.rotary.local_base = 0;
  take_usual(keys);
  unknown = keys.unknown();
  return m;
}

ordered_json gemma3_config(const ModelConfig& m) {
  auto config = gemma_config(m, 0);
  config["rope_local_base_freq"] = m.rotary.local_base > 0 ? m.rotary.local_base : m.rotary_base;
  return config;
}

// OLMo et al. 2024, "2 OLMo 2 furious".
ModelConfig olmo2_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                        std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_decoder(keys, m);
  m.norm_position = NormPosition::inside_post, m.qk_norm = plan::QkNorm::width;
  take_attention_biases(keys, m);
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-5);
  m.tied = keys.boolean("tie_word_embeddings", false);
  take_gated_activation(keys, m, "hidden_act", "silu");
  take_rotary(keys, m, where, {10000});
  require_whole_attention(keys);
  take_usual(keys);
  unknown = keys.unknown();
  return m;
}

ordered_json olmo2_config(const ModelConfig& m) {
  auto config = decoder_config(m);
  config.erase("head_dim");
  config["attention_bias"] = has_attention_biases(m);
  config["hidden_act"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  put_rotary(config, m);
  return config;
}

Family behind_branches(const char* model_type, const char* architecture, const DecoderNorms& norms,
                       decltype(Family::model) model, decltype(Family::config) config) {
  return {model_type,
          architecture,
          "model.",
          decoder_rules(norms, gated_ffn_rules()),
          {"@layers.{}.self_attn.rotary_emb.inv_freq"},
          {},
          tied_head("@embed_tokens.weight"),
          {},
          model,
          config};
}

constexpr DecoderNorms sandwich_norms = {
    "@layers.{}.input_layernorm.weight", "@layers.{}.post_attention_layernorm.weight",
    "@layers.{}.pre_feedforward_layernorm.weight", "@layers.{}.post_feedforward_layernorm.weight"};

}  // namespace

Family gemma2_family() {
  return behind_branches("gemma2", "Gemma2ForCausalLM", sandwich_norms, gemma2_model, gemma2_config);
}
Family gemma3_family() {
  return behind_branches("gemma3_text", "Gemma3ForCausalLM", sandwich_norms, gemma3_model, gemma3_config);
}
Family olmo2_family() {
  return behind_branches(
      "olmo2", "Olmo2ForCausalLM",
      {nullptr, "@layers.{}.post_attention_layernorm.weight", nullptr, "@layers.{}.post_feedforward_layernorm.weight"},
      olmo2_model, olmo2_config);
}

}  // namespace trainyard::checkpoint

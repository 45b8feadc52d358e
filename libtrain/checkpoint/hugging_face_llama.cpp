// Llama and the families that differ from it in a key or two: Mistral, Qwen2, Qwen3, Phi-3.
#include "libtrain/checkpoint/hugging_face_decoder.h"

#include "libtrain/base/index.h"

#include <algorithm>

namespace trainyard::checkpoint {

namespace {

using nlohmann::json, nlohmann::ordered_json;
using plan::Biases, plan::ModelConfig;

// Keys that a configuration of Llama's kind may have and that change no forward pass.
void take_rest(ConfigKeys& keys, std::vector<std::string>& unknown) {
  take_usual(keys);
  keys.pass_over({"max_sequence_length", "max_window_layers", "is_llama_config"});
  keys.require("rope_interleaved", false);
  keys.require("use_mrope", false);
  unknown = keys.unknown();
}

// Touvron et al. 2023; Grattafiori et al. 2024.
ModelConfig llama_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                        std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_decoder(keys, m);
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-6);
  m.tied = keys.boolean("tie_word_embeddings", false);
  const bool attention = keys.boolean("attention_bias", false), mlp = keys.boolean("mlp_bias", false);
  m.biases = mlp ? Biases::on : attention ? Biases::attention : Biases::off;
  if (mlp && !attention)
    keys.object_to(
        "'mlp_bias' is true and 'attention_bias' is false: here the feed-forward part has biases only if "
        "attention has them");
  take_gated_activation(keys, m, "hidden_act", "silu");
  if (keys.integer("pretraining_tp", 1) < 1) keys.object_to("'pretraining_tp' is below 1");
  take_rotary(keys, m, where, {10000});
  require_whole_attention(keys);
  take_rest(keys, unknown);
  return m;
}

ordered_json llama_config(const ModelConfig& m) {
  auto config = decoder_config(m);
  config["hidden_act"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  put_rotary(config, m);
  config["attention_bias"] = m.biases != Biases::off;
  config["mlp_bias"] = m.biases == Biases::on;
  config["pretraining_tp"] = 1;
  return config;
}

// Jiang et al. 2023.
ModelConfig mistral_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                          std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_decoder(keys, m, 8);
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-6);
  m.tied = keys.boolean("tie_word_embeddings", false);
  take_gated_activation(keys, m, "hidden_act", "silu");
  take_rotary(keys, m, where, {10000});
  take_same_window(keys, m, 4096);
  take_rest(keys, unknown);
  return m;
}

ordered_json mistral_config(const ModelConfig& m) {
  auto config = decoder_config(m);
  config["hidden_act"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  put_rotary(config, m);
  config["sliding_window"] = window_of(m);
  return config;
}

// The last layers of a Qwen have a window, if "use_sliding_window" is on.
void take_qwen_windows(ConfigKeys& keys, ModelConfig& m) {
  const bool uses = keys.boolean("use_sliding_window", false);
  const auto window = uses ? take_window(keys, 4096) : 0;
  keys.pass_over({"sliding_window"});
  if (keys.has("layer_types")) return take_layer_types(keys, m, window, 0);
  const auto first = keys.integer("max_window_layers", 28);
  auto& all = m.attention.window_tokens;
  if (first <= 0 || first >= m.layers || window == 0) {
    all = {first <= 0 ? window : 0};
  } else {
    all.assign(base::size(std::clamp<std::int64_t>(m.layers, 1, 10000)), window);
    std::fill_n(all.begin(), std::min<std::int64_t>(first, static_cast<std::int64_t>(all.size())), 0);
  }
}

void put_qwen_windows(ordered_json& config, const ModelConfig& m) {
  const auto window = window_of(m);
  config["use_sliding_window"] = !window.is_null();
  config["sliding_window"] = window;
  config["max_window_layers"] = m.layers;
  put_layer_types(config, m);
}

// Yang et al. 2024, "Qwen2 technical report" and "Qwen2.5 technical report".
ModelConfig qwen2_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                        std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_decoder(keys, m, 32);
  m.biases = Biases::qkv;
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-6);
  m.tied = keys.boolean("tie_word_embeddings", false);
  take_gated_activation(keys, m, "hidden_act", "silu");
  take_rotary(keys, m, where, {10000});
  take_qwen_windows(keys, m);
  take_rest(keys, unknown);
  return m;
}

ordered_json qwen2_config(const ModelConfig& m) {
  auto config = decoder_config(m);
  if (m.head_size == 0) config.erase("head_dim");  // its published files have none
  config["hidden_act"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  put_rotary(config, m);
  put_qwen_windows(config, m);
  return config;
}

// Yang et al. 2025, "Qwen3 technical report".
ModelConfig qwen3_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                        std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_decoder(keys, m, 32);
  take_usual_head(keys, m, 128);
  m.qk_norm = plan::QkNorm::head;
  take_attention_biases(keys, m);
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-6);
  m.tied = keys.boolean("tie_word_embeddings", false);
  take_gated_activation(keys, m, "hidden_act", "silu");
  take_rotary(keys, m, where, {10000});
  take_qwen_windows(keys, m);
  take_rest(keys, unknown);
  return m;
}

ordered_json qwen3_config(const ModelConfig& m) {
  auto config = decoder_config(m);
  config["attention_bias"] = has_attention_biases(m);
  config["hidden_act"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  put_rotary(config, m);
  put_qwen_windows(config, m);
  return config;
}

// Abdin et al. 2024, "Phi-3 technical report". q, k and v are one tensor, and so are gate and up.
ModelConfig phi3_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                       std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_decoder(keys, m);
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-5);
  m.dropout_embedding = keys.number("embd_pdrop", 0);
  m.dropout_attention_residual = m.dropout_ffn_residual = keys.number("resid_pdrop", 0);
  m.tied = keys.boolean("tie_word_embeddings", false);
  keys.require("attention_bias", false);
  take_gated_activation(keys, m, "hidden_act", "silu");
  take_rotary(keys, m, where, {10000, 1, true, false});
  take_same_window(keys, m, 0);
  keys.pass_over({"original_max_position_embeddings"});
  take_rest(keys, unknown);
  return m;
}

ordered_json phi3_config(const ModelConfig& m) {
  auto config = decoder_config(m);
  config.erase("head_dim");
  config["hidden_act"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  config["embd_pdrop"] = m.dropout_embedding;
  config["resid_pdrop"] = m.dropout_attention_residual;
  config["attention_bias"] = false;
  put_rotary(config, m);
  config["partial_rotary_factor"] = m.rotary.fraction;
  config["sliding_window"] = window_of(m);
  config["pad_token_id"] = nullptr;
  return config;
}

constexpr DecoderNorms usual_norms = {"@layers.{}.input_layernorm.weight", nullptr,
                                      "@layers.{}.post_attention_layernorm.weight", nullptr};

Family of_llamas_kind(const char* model_type, const char* architecture, decltype(Family::model) model,
                      decltype(Family::config) config) {
  return {model_type,
          architecture,
          "model.",
          decoder_rules(usual_norms, gated_ffn_rules()),
          {"@layers.{}.self_attn.rotary_emb.inv_freq"},
          {},
          tied_head("@embed_tokens.weight"),
          {},
          model,
          config};
}

}  // namespace

// Rotary pairs are (i, i + d/2) here, as in these files. Meta's own files have pairs (2i, 2i + 1) and are not read.
Family llama_family() { return of_llamas_kind("llama", "LlamaForCausalLM", llama_model, llama_config); }
Family mistral_family() { return of_llamas_kind("mistral", "MistralForCausalLM", mistral_model, mistral_config); }
Family qwen2_family() { return of_llamas_kind("qwen2", "Qwen2ForCausalLM", qwen2_model, qwen2_config); }
Family qwen3_family() { return of_llamas_kind("qwen3", "Qwen3ForCausalLM", qwen3_model, qwen3_config); }

Family phi3_family() {
  using enum ForeignRule::Layout;
  auto family = of_llamas_kind("phi3", "Phi3ForCausalLM", phi3_model, phi3_config);
  family.rules = {{"@embed_tokens.weight", same, {"embedding.tokens.weight"}},
                  {usual_norms.before_attention, same, {"{}.attention_norm.weight"}},
                  {"@layers.{}.self_attn.qkv_proj.weight",
                   same,
                   {"{}.attention.q.weight", "{}.attention.k.weight", "{}.attention.v.weight"}},
                  {"@layers.{}.self_attn.o_proj.weight", same, {"{}.attention.output.weight"}},
                  {usual_norms.before_ffn, same, {"{}.ffn_norm.weight"}},
                  {"@layers.{}.mlp.gate_up_proj.weight", same, {"{}.ffn.gate.weight", "{}.ffn.up.weight"}},
                  {"@layers.{}.mlp.down_proj.weight", same, {"{}.ffn.down.weight"}},
                  {"@norm.weight", same, {"head.norm.weight"}},
                  {head_name, same, {"head.weight"}}};
  return family;
}

}  // namespace trainyard::checkpoint

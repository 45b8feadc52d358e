// Families with experts: Mixtral, Qwen3 with experts, OLMoE.
#include "libtrain/checkpoint/hugging_face_decoder.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>

namespace trainyard::checkpoint {

namespace {

using nlohmann::json, nlohmann::ordered_json;
using plan::ExpertConfig, plan::GateWeights, plan::ModelConfig;

// These families drop no tokens. Their balance loss counts all choices.
void take_experts(ConfigKeys& keys, ModelConfig& m, std::int64_t count, std::int64_t top_k, double balance = 0.001) {
  auto& e = m.experts;
  e.count = {count}, e.top_k = top_k;
  e.capacity_factor = "none";
  e.balance_over = plan::BalanceOver::all;
  e.balance_loss = std::clamp(keys.number("router_aux_loss_coef", balance), 0.0, 1e6);
  keys.pass_over({"output_router_logits"});
}

// The weight of a single expert that is divided by itself is 1.
void require_weights(ConfigKeys& keys, const ModelConfig& m, const char* what) {
  if (m.experts.top_k == 1 && m.experts.weights == GateWeights::chosen)
    keys.object_to("'num_experts_per_tok' is 1, and {}: that weight would always be 1, which is not computed here",
                   what);
}

// The weights of the chosen experts are their scores, or these divided by their sum.
void take_weights(ConfigKeys& keys, ModelConfig& m, bool usual) {
  m.experts.weights = keys.boolean("norm_topk_prob", usual) ? GateWeights::chosen : GateWeights::scores;
  require_weights(keys, m, "'norm_topk_prob' divides its weight by the sum");
}

bool divides_scores(const ModelConfig& m) {
  return plan::weights_of(m.experts.weights, m.experts.top_k) != GateWeights::scores;
}

void put_experts(ordered_json& config, const ModelConfig& m, const char* count) {
  config[count] = m.experts.count.empty() ? 0 : m.experts.count.front();
  config["num_experts_per_tok"] = m.experts.top_k;
  config["router_aux_loss_coef"] = m.experts.balance_loss;
  config["output_router_logits"] = false;
}

// Jiang et al. 2024, "Mixtral of experts". The softmax over the logits of the chosen experts is the same as their
// probabilities divided by the sum.
ModelConfig mixtral_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                          std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_decoder(keys, m, 8);
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-5);
  m.tied = keys.boolean("tie_word_embeddings", false);
  take_gated_activation(keys, m, "hidden_act", "silu");
  take_rotary(keys, m, where, {1e6});
  take_same_window(keys, m, 0);
  take_experts(keys, m, keys.integer("num_local_experts", 8), keys.integer("num_experts_per_tok", 2));
  m.experts.weights = GateWeights::chosen;
  require_weights(keys, m, "a Mixtral divides its weight by the sum");
  if (keys.number("router_jitter_noise", 0) != 0)
    keys.object_to("'router_jitter_noise' is not 0: experts-noise = \"jitter\" has a width of its own here");
  take_usual(keys);
  unknown = keys.unknown();
  return m;
}

ordered_json mixtral_config(const ModelConfig& m) {
  auto config = decoder_config(m);
  config["intermediate_size"] = plan::expert_width(m);
  config["hidden_act"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  put_rotary(config, m);
  config["sliding_window"] = window_of(m);
  put_experts(config, m, "num_local_experts");
  config["router_jitter_noise"] = 0.0;
  return config;
}

// Which layers of a Qwen have no experts: those of "mlp_only_layers", and all but each "decoder_sparse_step"-th. Here
// the layers at the beginning may have none, and then each n-th layer has some.
void take_sparse_layers(ConfigKeys& keys, ModelConfig& m) {
  const auto step = keys.integer("decoder_sparse_step", 1), layers = std::clamp<std::int64_t>(m.layers, 0, 10000);
  if (step < 1) return keys.object_to("'decoder_sparse_step' is {}", step);
  std::vector<char> dense(base::size(layers));
  for (std::int64_t layer = 0; layer < layers; ++layer) base::at(dense, layer) = (layer + 1) % step != 0;
  if (keys.has("mlp_only_layers")) {
    const auto& list = keys.value("mlp_only_layers");
    if (!list.is_array()) return keys.object_to("'mlp_only_layers' is no list");
    for (const auto& layer : list)
      if (layer.is_number_integer() && layer.get<std::int64_t>() >= 0 && layer.get<std::int64_t>() < layers)
        base::at(dense, layer.get<std::int64_t>()) = 1;
  }
  const auto first = std::find(dense.begin(), dense.end(), 0) - dense.begin();
  m.experts.every = step, m.experts.dense_layers = std::max<std::int64_t>(0, first + 1 - step);
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (plan::layer_has_experts(m, layer) == (base::at(dense, layer) != 0))
      return keys.object_to(
          "'mlp_only_layers' and 'decoder_sparse_step': layer {} would be another here; dense layers "
          "are the first ones, and each n-th layer behind them has experts",
          layer);
}

void put_sparse_layers(ordered_json& config, const ModelConfig& m) {
  const auto& e = m.experts;
  const bool plain = e.dense_layers == 0;
  config["decoder_sparse_step"] = plain ? e.every : 1;
  auto dense = ordered_json::array();
  for (std::int64_t layer = 0; layer < m.layers && !plain; ++layer)
    if (!plan::layer_has_experts(m, layer)) dense.push_back(layer);
  config["mlp_only_layers"] = dense;
}

// Yang et al. 2025, "Qwen3 technical report".
ModelConfig qwen3_moe_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                            std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_decoder(keys, m, 4);
  m.qk_norm = plan::QkNorm::head;
  take_attention_biases(keys, m);
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-6);
  m.tied = keys.boolean("tie_word_embeddings", false);
  take_gated_activation(keys, m, "hidden_act", "silu");
  take_rotary(keys, m, where, {10000});
  if (keys.boolean("use_sliding_window", false)) take_same_window(keys, m, 4096);
  else keys.pass_over({"sliding_window", "layer_types"});
  const auto count = keys.has("num_experts") ? keys.integer("num_experts") : keys.integer("num_local_experts", 128);
  keys.pass_over({"num_local_experts", "max_window_layers"});
  take_experts(keys, m, count, keys.integer("num_experts_per_tok", 8));
  take_weights(keys, m, false);
  m.experts.ffn = keys.integer("moe_intermediate_size", 768);
  take_sparse_layers(keys, m);
  take_usual(keys);
  unknown = keys.unknown();
  return m;
}

ordered_json qwen3_moe_config(const ModelConfig& m) {
  auto config = decoder_config(m);
  config["attention_bias"] = has_attention_biases(m);
  config["hidden_act"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  put_rotary(config, m);
  const auto window = window_of(m);
  config["use_sliding_window"] = !window.is_null();
  config["sliding_window"] = window;
  put_experts(config, m, "num_experts");
  config["norm_topk_prob"] = divides_scores(m);
  config["moe_intermediate_size"] = plan::expert_width(m);
  put_sparse_layers(config, m);
  return config;
}

// Muennighoff et al. 2024, "OLMoE: open mixture-of-experts language models".
ModelConfig olmoe_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                        std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_decoder(keys, m);
  m.qk_norm = plan::QkNorm::width;
  take_attention_biases(keys, m);
  take_norm_epsilon(keys, m, "rms_norm_eps", 1e-5);
  m.tied = keys.boolean("tie_word_embeddings", false);
  take_gated_activation(keys, m, "hidden_act", "silu");
  take_rotary(keys, m, where, {10000});
  keys.require_none("clip_qkv", "bounds of queries, keys and values");
  take_experts(keys, m, keys.integer("num_experts", 64), keys.integer("num_experts_per_tok", 8), 0.01);
  take_weights(keys, m, false);
  require_whole_attention(keys);
  take_usual(keys);
  unknown = keys.unknown();
  return m;
}

ordered_json olmoe_config(const ModelConfig& m) {
  auto config = decoder_config(m);
  config.erase("head_dim");
  config["intermediate_size"] = plan::expert_width(m);
  config["attention_bias"] = has_attention_biases(m);
  config["hidden_act"] = gate_name(m);
  config["rms_norm_eps"] = m.norm_epsilon;
  put_rotary(config, m);
  config["clip_qkv"] = nullptr;
  put_experts(config, m, "num_experts");
  config["norm_topk_prob"] = divides_scores(m);
  return config;
}

constexpr DecoderNorms usual_norms_of_experts = {"@layers.{}.input_layernorm.weight", nullptr,
                                                 "@layers.{}.post_attention_layernorm.weight", nullptr};

std::vector<ForeignRule> expert_rules(const char* gate, const char* of_gate, const char* up, const char* down) {
  using enum ForeignRule::Layout;
  return {{gate, same, {"{}.gate.weight"}},
          {of_gate, same, {"{}.experts.[].gate.weight"}},
          {up, same, {"{}.experts.[].up.weight"}},
          {down, same, {"{}.experts.[].down.weight"}}};
}

Family with_experts(const char* model_type, const char* architecture, const std::vector<ForeignRule>& ffn,
                    decltype(Family::model) model, decltype(Family::config) config) {
  return {model_type,
          architecture,
          "model.",
          decoder_rules(usual_norms_of_experts, ffn),
          {"@layers.{}.self_attn.rotary_emb.inv_freq"},
          {},
          tied_head("@embed_tokens.weight"),
          {},
          model,
          config};
}

}  // namespace

Family mixtral_family() {
  return with_experts(
      "mixtral", "MixtralForCausalLM",
      expert_rules("@layers.{}.block_sparse_moe.gate.weight", "@layers.{}.block_sparse_moe.experts.[].w1.weight",
                   "@layers.{}.block_sparse_moe.experts.[].w3.weight",
                   "@layers.{}.block_sparse_moe.experts.[].w2.weight"),
      mixtral_model, mixtral_config);
}

Family qwen3_moe_family() {
  auto ffn = gated_ffn_rules();
  const auto experts =
      expert_rules("@layers.{}.mlp.gate.weight", "@layers.{}.mlp.experts.[].gate_proj.weight",
                   "@layers.{}.mlp.experts.[].up_proj.weight", "@layers.{}.mlp.experts.[].down_proj.weight");
  ffn.insert(ffn.end(), experts.begin(), experts.end());
  return with_experts("qwen3_moe", "Qwen3MoeForCausalLM", ffn, qwen3_moe_model, qwen3_moe_config);
}

Family olmoe_family() {
  return with_experts(
      "olmoe", "OlmoeForCausalLM",
      expert_rules("@layers.{}.mlp.gate.weight", "@layers.{}.mlp.experts.[].gate_proj.weight",
                   "@layers.{}.mlp.experts.[].up_proj.weight", "@layers.{}.mlp.experts.[].down_proj.weight"),
      olmoe_model, olmoe_config);
}

}  // namespace trainyard::checkpoint

// The family of GPT-NeoX (Black et al. 2022), with Pythia (Biderman et al. 2023).
#include "libtrain/checkpoint/hugging_face_decoder.h"

#include <tuple>

namespace trainyard::checkpoint {

namespace {

using nlohmann::json, nlohmann::ordered_json;
using plan::Activation, plan::ModelConfig;

// Older files have the angles beside the other keys, under names of their own. Some have them again under the usual
// names, which transformers does not read there.
void take_neox_angles(ConfigKeys& keys, ModelConfig& m, const std::string& where) {
  const auto base = keys.number("rotary_emb_base", 10000), fraction = keys.number("rotary_pct", 0.25);
  for (const auto& [key, name, value] :
       {std::tuple{"rope_theta", "rotary_emb_base", base}, std::tuple{"partial_rotary_factor", "rotary_pct", fraction}})
    if (keys.number(key, value) != value)
      keys.object_to("'{}' is {}, and '{}' is {}, which counts here", key, keys.number(key, value), name, value);
  take_rotary(keys, m, where, {base, fraction, true});
}

ModelConfig neox_model(const json& config, const std::string& where, std::vector<std::string>& objections,
                       std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  m.positions = plan::Positions::rotary;
  m.layers = keys.integer("num_hidden_layers"), m.hidden = keys.integer("hidden_size");
  m.heads = m.kv_heads = keys.integer("num_attention_heads"), m.ffn = keys.integer("intermediate_size");
  m.vocabulary = keys.integer("vocab_size"), m.context = keys.integer("max_position_embeddings");
  take_norm_epsilon(keys, m, "layer_norm_eps", 1e-5);
  m.tied = keys.boolean("tie_word_embeddings", false);
  m.parallel_residual = keys.boolean("use_parallel_residual", true);
  m.dropout_attention = keys.number("attention_dropout", 0);
  m.dropout_embedding = m.dropout_attention_residual = m.dropout_ffn_residual = keys.number("hidden_dropout", 0);
  keys.require("attention_bias", true);
  take_plain_activation(keys, m, "hidden_act", "gelu");
  take_neox_angles(keys, m, where);
  keys.pass_over({"classifier_dropout"});
  require_whole_attention(keys);
  take_usual(keys);
  unknown = keys.unknown();
  return m;
}

ordered_json neox_config(const ModelConfig& m) {
  ordered_json config = {{"num_hidden_layers", m.layers},
                         {"hidden_size", m.hidden},
                         {"num_attention_heads", m.heads},
                         {"intermediate_size", m.ffn},
                         {"vocab_size", m.vocabulary},
                         {"max_position_embeddings", m.context},
                         {"hidden_act", activation_name(m)},
                         {"layer_norm_eps", m.norm_epsilon},
                         {"use_parallel_residual", m.parallel_residual},
                         {"attention_bias", true},
                         {"attention_dropout", m.dropout_attention},
                         {"hidden_dropout", m.dropout_embedding}};
  put_rotary(config, m);
  config.erase("rope_theta");
  config["rotary_pct"] = m.rotary.fraction;
  config["rotary_emb_base"] = m.rotary_base;
  return config;
}

}  // namespace

// One tensor holds q, k and v of the first head, then those of the next.
Family neox_family() {
  using enum ForeignRule::Layout;
  return {"gpt_neox",
          "GPTNeoXForCausalLM",
          "gpt_neox.",
          {{"@embed_in.weight", same, {"embedding.tokens.weight"}},
           {"@layers.{}.input_layernorm.weight", same, {"{}.attention_norm.weight"}},
           {"@layers.{}.input_layernorm.bias", same, {"{}.attention_norm.bias"}},
           {"@layers.{}.attention.query_key_value.weight",
            by_head,
            {"{}.attention.q.weight", "{}.attention.k.weight", "{}.attention.v.weight"}},
           {"@layers.{}.attention.query_key_value.bias",
            by_head,
            {"{}.attention.q.bias", "{}.attention.k.bias", "{}.attention.v.bias"}},
           {"@layers.{}.attention.dense.weight", same, {"{}.attention.output.weight"}},
           {"@layers.{}.attention.dense.bias", same, {"{}.attention.output.bias"}},
           {"@layers.{}.post_attention_layernorm.weight", same, {"{}.ffn_norm.weight"}},
           {"@layers.{}.post_attention_layernorm.bias", same, {"{}.ffn_norm.bias"}},
           {"@layers.{}.mlp.dense_h_to_4h.weight", same, {"{}.ffn.up.weight"}},
           {"@layers.{}.mlp.dense_h_to_4h.bias", same, {"{}.ffn.up.bias"}},
           {"@layers.{}.mlp.dense_4h_to_h.weight", same, {"{}.ffn.down.weight"}},
           {"@layers.{}.mlp.dense_4h_to_h.bias", same, {"{}.ffn.down.bias"}},
           {"@final_layer_norm.weight", same, {"head.norm.weight"}},
           {"@final_layer_norm.bias", same, {"head.norm.bias"}},
           {"embed_out.weight", same, {"head.weight"}}},
          {"@layers.{}.attention.bias", "@layers.{}.attention.masked_bias", "@layers.{}.attention.rotary_emb.inv_freq"},
          {},
          {{"embed_out.weight", "@embed_in.weight"}},
          {},
          neox_model,
          neox_config};
}

}  // namespace trainyard::checkpoint

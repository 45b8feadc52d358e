// The family of Llama (Touvron et al. 2023).
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/hugging_face_keys.h"

namespace trainyard::checkpoint {

namespace {

using plan::Activation, plan::Biases, plan::ModelConfig, plan::Norm, plan::Positions;

// Rotary embedding applies to whole heads only.
void require_whole_heads(ConfigKeys& keys, const std::string& where) {
  if (keys.number("partial_rotary_factor", 1) != 1)
    keys.object_to("{}'partial_rotary_factor' rotates a part of each head: only whole heads are rotated here", where);
}

// Rotary angles: "rope_theta" and "rope_scaling", or in newer files both in "rope_parameters".
void llama_rotary(ConfigKeys& keys, ModelConfig& m, const std::string& where, std::vector<std::string>& objections) {
  m.rotary_base = keys.number("rope_theta", 10000);
  require_whole_heads(keys, "");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!keys.has(key)) continue;
    ConfigKeys rope(keys.value(key), fmt::format("{}: {}", where, key), objections);
    bool scaled = false;
    for (const char* name : {"rope_type", "type"}) {
      if (!rope.has(name)) continue;
      const auto type = rope.text(name, "");
      if (type == "default") continue;
      scaled = true;
      keys.object_to("'{}' is of type {}: rotary angles are computed here without any scaling ('default')", key,
                     base::excerpt(type));
    }
    m.rotary_base = rope.number("rope_theta", m.rotary_base);
    require_whole_heads(rope, fmt::format("'{}': ", key));
    if (scaled) continue;  // its other keys belong to the scaling
    if (rope.number("factor", 1) != 1) keys.object_to("'{}' has a factor, but no type that uses it", key);
    for (const auto& name : rope.unknown())
      keys.object_to("'{}' has the key {}, which angles without scaling do not have", key, base::excerpt(name));
  }
}

ModelConfig llama_model(const nlohmann::json& config, const std::string& where, std::vector<std::string>& objections,
                        std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  m.norm = Norm::rms, m.positions = Positions::rotary, m.activation = Activation::swiglu;
  m.layers = keys.integer("num_hidden_layers"), m.hidden = keys.integer("hidden_size");
  m.heads = keys.integer("num_attention_heads"), m.kv_heads = keys.integer("num_key_value_heads", m.heads);
  m.ffn = keys.integer("intermediate_size"), m.vocabulary = keys.integer("vocab_size");
  m.context = keys.integer("max_position_embeddings");
  m.norm_epsilon = keys.number("rms_norm_eps", 1e-6);
  m.dropout_attention = keys.number("attention_dropout", 0);
  m.tied = keys.boolean("tie_word_embeddings", false);
  const bool attention = keys.boolean("attention_bias", false), mlp = keys.boolean("mlp_bias", false);
  m.biases = mlp ? Biases::on : attention ? Biases::attention : Biases::off;
  if (mlp && !attention)
    keys.object_to(
        "'mlp_bias' is true and 'attention_bias' is false: here the feed-forward part has biases only if "
        "attention has them");
  if (const auto f = keys.text("hidden_act", "silu"); f != "silu" && f != "swish")
    keys.object_to("'hidden_act' is {}: of Llama only silu is computed here", base::excerpt(f));
  if (m.heads > 0 && keys.has("head_dim"))
    if (const auto dim = keys.integer("head_dim"); dim != m.head_dim() || m.hidden % m.heads != 0)
      keys.object_to("'head_dim' is {}: here it is hidden_size / num_attention_heads, {} / {}", dim, m.hidden, m.heads);
  if (keys.integer("pretraining_tp", 1) < 1) keys.object_to("'pretraining_tp' is below 1");
  llama_rotary(keys, m, where, objections);
  take_usual(keys);
  keys.pass_over({"max_sequence_length"});
  unknown = keys.unknown();
  return m;
}

std::vector<std::string> llama_problems(const ModelConfig& m) {
  std::vector<std::string> out;
  if (m.norm != Norm::rms) out.emplace_back("norm is not rms");
  problems_of_decoder(m, out);
  if (m.positions != Positions::rotary) out.emplace_back("positions are not rotary");
  if (m.activation != Activation::swiglu) out.emplace_back("activation is not swiglu");
  if (m.rotary != plan::RotaryConfig()) out.emplace_back("rotary angles are scaled, or a part of each head rotates");
  problems_of_heads(m, out);
  if (m.biases == Biases::qkv) out.emplace_back("biases are those of q, k and v");
  return out;
}

nlohmann::ordered_json llama_config(const ModelConfig& m, std::vector<std::string>& left_out) {
  for (const auto& [name, value] : {std::pair{"dropout-embedding", m.dropout_embedding},
                                    {"dropout-attention-residual", m.dropout_attention_residual},
                                    {"dropout-ffn-residual", m.dropout_ffn_residual}})
    if (value != 0) left_out.push_back(fmt::format("{} {} (Llama has none)", name, value));
  return {{"num_hidden_layers", m.layers},
          {"hidden_size", m.hidden},
          {"num_attention_heads", m.heads},
          {"num_key_value_heads", m.kv_heads},
          {"head_dim", m.head_dim()},
          {"intermediate_size", m.ffn},
          {"vocab_size", m.vocabulary},
          {"max_position_embeddings", m.context},
          {"hidden_act", "silu"},
          {"rms_norm_eps", m.norm_epsilon},
          {"rope_theta", m.rotary_base},
          {"rope_scaling", nullptr},
          {"attention_bias", m.biases != Biases::off},
          {"mlp_bias", m.biases == Biases::on},
          {"attention_dropout", m.dropout_attention},
          {"pretraining_tp", 1}};
}

}  // namespace

// Rotary pairs are (i, i + d/2) here, as in these files. Meta's own files have pairs (2i, 2i + 1) and are not read.
Family llama_family() {
  using enum ForeignRule::Layout;
  return {"llama",
          "LlamaForCausalLM",
          "model.",
          {{"@embed_tokens.weight", same, {"embedding.tokens.weight"}},
           {"@layers.{}.input_layernorm.weight", same, {"{}.attention_norm.weight"}},
           {"@layers.{}.self_attn.q_proj.weight", same, {"{}.attention.q.weight"}},
           {"@layers.{}.self_attn.q_proj.bias", same, {"{}.attention.q.bias"}},
           {"@layers.{}.self_attn.k_proj.weight", same, {"{}.attention.k.weight"}},
           {"@layers.{}.self_attn.k_proj.bias", same, {"{}.attention.k.bias"}},
           {"@layers.{}.self_attn.v_proj.weight", same, {"{}.attention.v.weight"}},
           {"@layers.{}.self_attn.v_proj.bias", same, {"{}.attention.v.bias"}},
           {"@layers.{}.self_attn.o_proj.weight", same, {"{}.attention.output.weight"}},
           {"@layers.{}.self_attn.o_proj.bias", same, {"{}.attention.output.bias"}},
           {"@layers.{}.post_attention_layernorm.weight", same, {"{}.ffn_norm.weight"}},
           {"@layers.{}.mlp.gate_proj.weight", same, {"{}.ffn.gate.weight"}},
           {"@layers.{}.mlp.gate_proj.bias", same, {"{}.ffn.gate.bias"}},
           {"@layers.{}.mlp.up_proj.weight", same, {"{}.ffn.up.weight"}},
           {"@layers.{}.mlp.up_proj.bias", same, {"{}.ffn.up.bias"}},
           {"@layers.{}.mlp.down_proj.weight", same, {"{}.ffn.down.weight"}},
           {"@layers.{}.mlp.down_proj.bias", same, {"{}.ffn.down.bias"}},
           {"@norm.weight", same, {"head.norm.weight"}},
           {head_name, same, {"head.weight"}}},
          {"@layers.{}.self_attn.rotary_emb.inv_freq"},
          {},
          tied_head("@embed_tokens.weight"),
          {},
          llama_model,
          llama_problems,
          llama_config};
}

}  // namespace trainyard::checkpoint

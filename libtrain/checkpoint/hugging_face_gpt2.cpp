// The family of GPT-2 (Radford et al. 2019).
#include "libtrain/checkpoint/hugging_face_keys.h"

#include <algorithm>

namespace trainyard::checkpoint {

namespace {

using plan::ModelConfig;

ModelConfig gpt2_model(const nlohmann::json& config, const std::string& where, std::vector<std::string>& objections,
                       std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  m.layers = keys.integer("n_layer"), m.hidden = keys.integer("n_embd"), m.heads = m.kv_heads = keys.integer("n_head");
  m.vocabulary = keys.integer("vocab_size"), m.context = keys.integer("n_positions");
  m.ffn = keys.has("n_inner") ? keys.integer("n_inner") : 4 * std::clamp<std::int64_t>(m.hidden, 0, 1 << 20);
  take_norm_epsilon(keys, m, "layer_norm_epsilon", 1e-5);
  m.dropout_embedding = keys.number("embd_pdrop", 0.1), m.dropout_attention = keys.number("attn_pdrop", 0.1);
  m.dropout_attention_residual = m.dropout_ffn_residual = keys.number("resid_pdrop", 0.1);
  m.tied = keys.boolean("tie_word_embeddings", true);
  take_plain_activation(keys, m, "activation_function", "gelu_new");
  keys.require("scale_attn_weights", true);
  keys.require("scale_attn_by_inverse_layer_idx", false);
  keys.require("add_cross_attention", false);
  require_whole_attention(keys);
  take_usual(keys);
  keys.pass_over({"n_ctx", "reorder_and_upcast_attn", "summary_type", "summary_use_proj", "summary_activation",
                  "summary_proj_to_labels", "summary_first_dropout", "output_past", "n_special",
                  "predict_special_tokens"});
  unknown = keys.unknown();
  return m;
}

nlohmann::ordered_json gpt2_config(const ModelConfig& m) {
  return {{"n_layer", m.layers},
          {"n_embd", m.hidden},
          {"n_head", m.heads},
          {"n_inner", m.ffn},
          {"vocab_size", m.vocabulary},
          {"n_positions", m.context},
          {"n_ctx", m.context},
          {"activation_function", activation_name(m)},
          {"layer_norm_epsilon", m.norm_epsilon},
          {"embd_pdrop", m.dropout_embedding},
          {"attn_pdrop", m.dropout_attention},
          {"resid_pdrop", m.dropout_attention_residual},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"reorder_and_upcast_attn", false},
          {"add_cross_attention", false}};
}

}  // namespace

// q, k and v are fused. Linear layers are Conv1D, whose weights are [in, out].
Family gpt2_family() {
  using enum ForeignRule::Layout;
  return {"gpt2",
          "GPT2LMHeadModel",
          "transformer.",
          {{"@wte.weight", same, {"embedding.tokens.weight"}},
           {"@wpe.weight", same, {"embedding.positions.weight"}},
           {"@h.{}.ln_1.weight", same, {"{}.attention_norm.weight"}},
           {"@h.{}.ln_1.bias", same, {"{}.attention_norm.bias"}},
           {"@h.{}.attn.c_attn.weight",
            transposed,
            {"{}.attention.q.weight", "{}.attention.k.weight", "{}.attention.v.weight"}},
           {"@h.{}.attn.c_attn.bias", same, {"{}.attention.q.bias", "{}.attention.k.bias", "{}.attention.v.bias"}},
           {"@h.{}.attn.c_proj.weight", transposed, {"{}.attention.output.weight"}},
           {"@h.{}.attn.c_proj.bias", same, {"{}.attention.output.bias"}},
           {"@h.{}.ln_2.weight", same, {"{}.ffn_norm.weight"}},
           {"@h.{}.ln_2.bias", same, {"{}.ffn_norm.bias"}},
           {"@h.{}.mlp.c_fc.weight", transposed, {"{}.ffn.up.weight"}},
           {"@h.{}.mlp.c_fc.bias", same, {"{}.ffn.up.bias"}},
           {"@h.{}.mlp.c_proj.weight", transposed, {"{}.ffn.down.weight"}},
           {"@h.{}.mlp.c_proj.bias", same, {"{}.ffn.down.bias"}},
           {"@ln_f.weight", same, {"head.norm.weight"}},
           {"@ln_f.bias", same, {"head.norm.bias"}},
           {head_name, same, {"head.weight"}}},
          {"@h.{}.attn.bias", "@h.{}.attn.masked_bias"},
          {},
          tied_head("@wte.weight"),
          {},
          gpt2_model,
          gpt2_config};
}

}  // namespace trainyard::checkpoint

// The families of T5 (Raffel et al. 2020): versions 1.0 and 1.1, and mT5 (Xue et al. 2021).
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/hugging_face_keys.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace trainyard::checkpoint {

namespace {

using plan::Activation, plan::ModelConfig;

constexpr std::pair<const char*, Activation> projections[] = {{"relu", Activation::relu},
                                                              {"gated-gelu", Activation::geglu_tanh},
                                                              {"gated-silu", Activation::swiglu},
                                                              {"gelu_new", Activation::gelu_tanh},
                                                              {"gelu", Activation::gelu_erf}};

// The activation and whether it has a gate are in feed_forward_proj. Files also have both apart, as transformers
// derives them.
void take_activation(ConfigKeys& keys, ModelConfig& m, const char* usual) {
  const auto projection = keys.text("feed_forward_proj", usual);
  const auto* found = std::find_if(std::begin(projections), std::end(projections),
                                   [&](const auto& known) { return projection == known.first; });
  if (found == std::end(projections))
    return keys.object_to(
        "'feed_forward_proj' is {}: relu, gelu, gelu_new, gated-gelu and gated-silu are computed here",
        base::excerpt(projection));
  m.activation = found->second;
  const bool gated = projection.starts_with("gated-");
  const auto derived = projection == "gated-gelu" ? "gelu_new" : gated ? projection.substr(6) : projection;
  keys.require("is_gated_act", gated);
  if (const auto given = keys.text("dense_act_fn", derived.c_str()); given != derived)
    keys.object_to("'dense_act_fn' is {}, and 'feed_forward_proj' {}", base::excerpt(given), projection);
}

ModelConfig t5_shape(ConfigKeys& keys, const char* usual_projection) {
  ModelConfig m;
  m.norm = plan::Norm::rms, m.positions = plan::Positions::relative, m.biases = plan::Biases::off;
  m.query_scale = 1, m.initial_values = plan::InitialValues::fan_in;
  m.vocabulary = keys.integer("vocab_size"), m.hidden = keys.integer("d_model", 512);
  m.head_size = keys.integer("d_kv", 64), m.ffn = keys.integer("d_ff", 2048);
  m.heads = m.kv_heads = keys.integer("num_heads", 8);
  m.encoder_layers = keys.integer("num_layers", 6);
  m.decoder_layers = keys.integer("num_decoder_layers", m.encoder_layers);
  if (m.encoder_layers < 1 || m.decoder_layers < 1)
    keys.object_to("'num_layers' is {} and 'num_decoder_layers' {}: both parts have layers", m.encoder_layers,
                   m.decoder_layers);
  m.layers = m.encoder_layers + m.decoder_layers;
  m.relative_buckets = keys.integer("relative_attention_num_buckets", 32);
  m.relative_distance = keys.integer("relative_attention_max_distance", 128);
  m.context = keys.integer("n_positions", 512);  // nothing that is computed depends on it
  take_norm_epsilon(keys, m, "layer_norm_epsilon", 1e-6);
  m.dropout_embedding = m.dropout_attention = m.dropout_attention_residual = m.dropout_ffn_residual = m.dropout_ffn =
      m.dropout_final_norm = keys.number("dropout_rate", 0.1);
  take_activation(keys, m, usual_projection);
  const auto start = keys.integer("decoder_start_token_id", keys.integer("pad_token_id", 0));
  if (start < 0 || start >= m.vocabulary)
    keys.object_to("'decoder_start_token_id' is {} of {} tokens", start, m.vocabulary);
  else m.decoder_start = static_cast<int>(start);
  keys.require("is_encoder_decoder", true);
  take_usual(keys);
  keys.pass_over({"initializer_factor", "classifier_dropout", "output_past"});
  return m;
}

// Version 5 of transformers writes that words are tied, whatever they are, and keeps apart that the head is scaled, as
// it is in models whose words are tied.
ModelConfig t5_model(const nlohmann::json& config, const std::string& where, std::vector<std::string>& objections,
                     std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  auto m = t5_shape(keys, "relu");
  const bool tied = keys.boolean("tie_word_embeddings", true);
  m.tied = keys.boolean("scale_decoder_outputs", tied);
  if (m.tied) m.head_scale = 1 / std::sqrt(static_cast<double>(m.hidden));
  unknown = keys.unknown();
  return m;
}

// The table of the head is never the one of the tokens.
ModelConfig mt5_model(const nlohmann::json& config, const std::string& where, std::vector<std::string>& objections,
                      std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  auto m = t5_shape(keys, "gated-gelu");
  m.tied = false;
  keys.pass_over({"tie_word_embeddings", "scale_decoder_outputs"});
  unknown = keys.unknown();
  return m;
}

nlohmann::ordered_json t5_config(const ModelConfig& m) {
  const char* projection = "relu";
  for (const auto& [name, activation] : projections)
    if (activation == m.activation) projection = name;
  return {{"d_model", m.hidden},
          {"d_kv", m.head_dim()},
          {"d_ff", m.ffn},
          {"num_layers", m.encoder_layers},
          {"num_decoder_layers", m.decoder_layers},
          {"num_heads", m.heads},
          {"vocab_size", m.vocabulary},
          {"n_positions", m.context},
          {"relative_attention_num_buckets", m.relative_buckets},
          {"relative_attention_max_distance", m.relative_distance},
          {"feed_forward_proj", projection},
          {"layer_norm_epsilon", m.norm_epsilon},
          {"dropout_rate", m.dropout_embedding},
          {"is_encoder_decoder", true},
          {"pad_token_id", 0},
          {"decoder_start_token_id", m.decoder_start < 0 ? 0 : m.decoder_start}};
}

}  // namespace

// Both parts read the table of tokens, of which files may hold copies. Old files have a bias of cross-attention that
// nothing uses.
Family t5_family() {
  using enum ForeignRule::Layout;
  return {"t5",
          "T5ForConditionalGeneration",
          "",
          {{"shared.weight", same, {"embedding.tokens.weight"}},
           {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            same,
            {"encoder.relative_positions.weight"}},
           {"encoder.block.{}.layer.0.layer_norm.weight", same, {"{}.attention_norm.weight"}},
           {"encoder.block.{}.layer.0.SelfAttention.q.weight", same, {"{}.attention.q.weight"}},
           {"encoder.block.{}.layer.0.SelfAttention.k.weight", same, {"{}.attention.k.weight"}},
           {"encoder.block.{}.layer.0.SelfAttention.v.weight", same, {"{}.attention.v.weight"}},
           {"encoder.block.{}.layer.0.SelfAttention.o.weight", same, {"{}.attention.output.weight"}},
           {"encoder.block.{}.layer.1.layer_norm.weight", same, {"{}.ffn_norm.weight"}},
           {"encoder.block.{}.layer.1.DenseReluDense.wi{gate}.weight", same, {"{}.ffn.gate.weight"}},
           {"encoder.block.{}.layer.1.DenseReluDense.wi{up}.weight", same, {"{}.ffn.up.weight"}},
           {"encoder.block.{}.layer.1.DenseReluDense.wo.weight", same, {"{}.ffn.down.weight"}},
           {"encoder.final_layer_norm.weight", same, {"encoder.norm.weight"}},
           {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            same,
            {"decoder.relative_positions.weight"}},
           {"decoder.block.{}.layer.0.layer_norm.weight", same, {"{}.attention_norm.weight"}},
           {"decoder.block.{}.layer.0.SelfAttention.q.weight", same, {"{}.attention.q.weight"}},
           {"decoder.block.{}.layer.0.SelfAttention.k.weight", same, {"{}.attention.k.weight"}},
           {"decoder.block.{}.layer.0.SelfAttention.v.weight", same, {"{}.attention.v.weight"}},
           {"decoder.block.{}.layer.0.SelfAttention.o.weight", same, {"{}.attention.output.weight"}},
           {"decoder.block.{}.layer.1.layer_norm.weight", same, {"{}.cross_attention_norm.weight"}},
           {"decoder.block.{}.layer.1.EncDecAttention.q.weight", same, {"{}.cross_attention.q.weight"}},
           {"decoder.block.{}.layer.1.EncDecAttention.k.weight", same, {"{}.cross_attention.k.weight"}},
           {"decoder.block.{}.layer.1.EncDecAttention.v.weight", same, {"{}.cross_attention.v.weight"}},
           {"decoder.block.{}.layer.1.EncDecAttention.o.weight", same, {"{}.cross_attention.output.weight"}},
           {"decoder.block.{}.layer.2.layer_norm.weight", same, {"{}.ffn_norm.weight"}},
           {"decoder.block.{}.layer.2.DenseReluDense.wi{gate}.weight", same, {"{}.ffn.gate.weight"}},
           {"decoder.block.{}.layer.2.DenseReluDense.wi{up}.weight", same, {"{}.ffn.up.weight"}},
           {"decoder.block.{}.layer.2.DenseReluDense.wo.weight", same, {"{}.ffn.down.weight"}},
           {"decoder.final_layer_norm.weight", same, {"head.norm.weight"}},
           {head_name, same, {"head.weight"}}},
          {},
          {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"},
          tied_head("shared.weight"),
          {},
          t5_model,
          t5_config,
          {{"encoder.embed_tokens.weight", "shared.weight"}, {"decoder.embed_tokens.weight", "shared.weight"}}};
}

Family mt5_family() {
  auto family = t5_family();
  family.model_type = "mt5", family.architecture = "MT5ForConditionalGeneration";
  family.tied = {};
  family.model = mt5_model;
  return family;
}

}  // namespace trainyard::checkpoint

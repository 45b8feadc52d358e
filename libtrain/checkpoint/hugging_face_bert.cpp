// The family of BERT (Devlin et al. 2019), as a masked language model.
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/hugging_face_keys.h"

namespace trainyard::checkpoint {

namespace {

using plan::Activation, plan::HeadForm, plan::ModelConfig, plan::Norm, plan::NormPosition, plan::Positions;

ModelConfig bert_model(const nlohmann::json& config, const std::string& where, std::vector<std::string>& objections,
                       std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  m.attention.causal = false;
  m.norm_position = NormPosition::post, m.embedding_norm = true, m.head = HeadForm::masked;
  m.layers = keys.integer("num_hidden_layers"), m.hidden = keys.integer("hidden_size");
  m.heads = m.kv_heads = keys.integer("num_attention_heads"), m.ffn = keys.integer("intermediate_size");
  m.vocabulary = keys.integer("vocab_size"), m.context = keys.integer("max_position_embeddings");
  m.segments = keys.integer("type_vocab_size", 2);
  if (m.segments == 0) keys.object_to("'type_vocab_size' is 0: a BERT has a table of segments here");
  m.norm_epsilon = keys.number("layer_norm_eps", 1e-12);
  m.dropout_embedding = m.dropout_attention_residual = m.dropout_ffn_residual = keys.number("hidden_dropout_prob", 0.1);
  m.dropout_attention = keys.number("attention_probs_dropout_prob", 0.1);
  const auto f = keys.text("hidden_act", "gelu");
  m.activation = f == "gelu" ? Activation::gelu_erf : Activation::gelu_tanh;
  if (f != "gelu" && f != "gelu_new" && f != "gelu_pytorch_tanh")
    keys.object_to("'hidden_act' is {}: of BERT gelu and gelu_new are computed here", base::excerpt(f));
  if (const auto p = keys.text("position_embedding_type", "absolute"); p != "absolute")
    keys.object_to("'position_embedding_type' is {}: of BERT absolute is computed here", base::excerpt(p));
  keys.require("tie_word_embeddings", true);
  keys.require("is_decoder", false);
  keys.require("add_cross_attention", false);
  take_usual(keys);
  // Keys of downstream tasks and of the pooler, which is left out.
  keys.pass_over({"classifier_dropout", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
                  "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
  unknown = keys.unknown();
  return m;
}

std::vector<std::string> bert_problems(const ModelConfig& m) {
  std::vector<std::string> out;
  if (m.attention.causal) out.emplace_back("attention is causal");
  if (m.norm != Norm::layer) out.emplace_back("norm is not layer");
  if (m.norm_position != NormPosition::post) out.emplace_back("norm-position is not post");
  problems_of_variants(m, out);
  if (!m.embedding_norm) out.emplace_back("embedding-norm is off");
  if (m.segments == 0) out.emplace_back("there are no segments");
  if (m.head != HeadForm::masked) out.emplace_back("head is not masked");
  if (m.positions != Positions::learned) out.emplace_back("positions are not learned");
  if (m.activation != Activation::gelu_tanh && m.activation != Activation::gelu_erf)
    out.emplace_back("activation is not gelu-tanh or gelu-erf");
  if (m.biases != plan::Biases::on) out.emplace_back("biases are off");
  if (!m.tied) out.emplace_back("tied is off");
  if (m.kv_heads != m.heads) out.emplace_back("kv-heads are fewer than heads");
  return out;
}

nlohmann::ordered_json bert_config(const ModelConfig& m, std::vector<std::string>& left_out) {
  for (const auto& [name, value] : {std::pair{"dropout-attention-residual", m.dropout_attention_residual},
                                    {"dropout-ffn-residual", m.dropout_ffn_residual}})
    if (value != m.dropout_embedding)
      left_out.push_back(fmt::format("{} {} (BERT has one number for the embedding and both residuals)", name, value));
  return {{"num_hidden_layers", m.layers},
          {"hidden_size", m.hidden},
          {"num_attention_heads", m.heads},
          {"intermediate_size", m.ffn},
          {"vocab_size", m.vocabulary},
          {"max_position_embeddings", m.context},
          {"type_vocab_size", m.segments},
          {"hidden_act", m.activation == Activation::gelu_erf ? "gelu" : "gelu_new"},
          {"layer_norm_eps", m.norm_epsilon},
          {"hidden_dropout_prob", m.dropout_embedding},
          {"attention_probs_dropout_prob", m.dropout_attention},
          {"pad_token_id", nullptr},
          {"is_decoder", false},
          {"add_cross_attention", false}};
}

}  // namespace

// The pooler and the next-sentence head belong to downstream tasks; no block here has them. Old files call the
// parameters of a norm gamma and beta.
Family bert_family() {
  using enum ForeignRule::Layout;
  return {"bert",
          "BertForMaskedLM",
          "bert.",
          {{"@embeddings.word_embeddings.weight", same, {"embedding.tokens.weight"}},
           {"@embeddings.position_embeddings.weight", same, {"embedding.positions.weight"}},
           {"@embeddings.token_type_embeddings.weight", same, {"embedding.segments.weight"}},
           {"@embeddings.LayerNorm.weight", same, {"embedding.norm.weight"}},
           {"@embeddings.LayerNorm.bias", same, {"embedding.norm.bias"}},
           {"@encoder.layer.{}.attention.self.query.weight", same, {"{}.attention.q.weight"}},
           {"@encoder.layer.{}.attention.self.query.bias", same, {"{}.attention.q.bias"}},
           {"@encoder.layer.{}.attention.self.key.weight", same, {"{}.attention.k.weight"}},
           {"@encoder.layer.{}.attention.self.key.bias", same, {"{}.attention.k.bias"}},
           {"@encoder.layer.{}.attention.self.value.weight", same, {"{}.attention.v.weight"}},
           {"@encoder.layer.{}.attention.self.value.bias", same, {"{}.attention.v.bias"}},
           {"@encoder.layer.{}.attention.output.dense.weight", same, {"{}.attention.output.weight"}},
           {"@encoder.layer.{}.attention.output.dense.bias", same, {"{}.attention.output.bias"}},
           {"@encoder.layer.{}.attention.output.LayerNorm.weight", same, {"{}.attention_norm.weight"}},
           {"@encoder.layer.{}.attention.output.LayerNorm.bias", same, {"{}.attention_norm.bias"}},
           {"@encoder.layer.{}.intermediate.dense.weight", same, {"{}.ffn.up.weight"}},
           {"@encoder.layer.{}.intermediate.dense.bias", same, {"{}.ffn.up.bias"}},
           {"@encoder.layer.{}.output.dense.weight", same, {"{}.ffn.down.weight"}},
           {"@encoder.layer.{}.output.dense.bias", same, {"{}.ffn.down.bias"}},
           {"@encoder.layer.{}.output.LayerNorm.weight", same, {"{}.ffn_norm.weight"}},
           {"@encoder.layer.{}.output.LayerNorm.bias", same, {"{}.ffn_norm.bias"}},
           {"cls.predictions.transform.dense.weight", same, {"head.transform.weight"}},
           {"cls.predictions.transform.dense.bias", same, {"head.transform.bias"}},
           {"cls.predictions.transform.LayerNorm.weight", same, {"head.transform_norm.weight"}},
           {"cls.predictions.transform.LayerNorm.bias", same, {"head.transform_norm.bias"}},
           {"cls.predictions.bias", same, {"head.bias"}}},
          {"@embeddings.position_ids"},
          {"@pooler.dense.weight", "@pooler.dense.bias", "cls.seq_relationship.weight", "cls.seq_relationship.bias"},
          {{"cls.predictions.decoder.weight", "@embeddings.word_embeddings.weight"},
           {"cls.predictions.decoder.bias", "cls.predictions.bias"}},
          {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}},
          bert_model,
          bert_problems,
          bert_config};
}

}  // namespace trainyard::checkpoint

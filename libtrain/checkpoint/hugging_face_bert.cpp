// The family of BERT (Devlin et al. 2019), as a masked language model.
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/hugging_face_keys.h"

namespace trainyard::checkpoint {

namespace {

using plan::Activation, plan::HeadForm, plan::ModelConfig, plan::NormPosition;

// What BERT and RoBERTa have in common.
void take_bert(ConfigKeys& keys, ModelConfig& m) {
  m.attention.causal = false;
  m.norm_position = NormPosition::post, m.embedding_norm = true, m.head = HeadForm::masked;
  m.layers = keys.integer("num_hidden_layers"), m.hidden = keys.integer("hidden_size");
  m.heads = m.kv_heads = keys.integer("num_attention_heads"), m.ffn = keys.integer("intermediate_size");
  m.vocabulary = keys.integer("vocab_size"), m.context = keys.integer("max_position_embeddings");
  m.segments = keys.integer("type_vocab_size", 2);
  if (m.segments == 0) keys.object_to("'type_vocab_size' is 0: a BERT has a table of segments here");
  take_norm_epsilon(keys, m, "layer_norm_eps", 1e-12);
  m.dropout_embedding = m.dropout_attention_residual = m.dropout_ffn_residual = keys.number("hidden_dropout_prob", 0.1);
  m.dropout_attention = keys.number("attention_probs_dropout_prob", 0.1);
  take_plain_activation(keys, m, "hidden_act", "gelu");
  if (const auto p = keys.text("position_embedding_type", "absolute"); p != "absolute")
    keys.object_to("'position_embedding_type' is {}: of BERT absolute is computed here", base::excerpt(p));
  keys.require("tie_word_embeddings", true);
  keys.require("is_decoder", false);
  keys.require("add_cross_attention", false);
  require_whole_attention(keys);
  take_usual(keys);
  // Keys of downstream tasks and of the pooler, which is left out.
  keys.pass_over({"classifier_dropout", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
                  "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
}

ModelConfig bert_model(const nlohmann::json& config, const std::string& where, std::vector<std::string>& objections,
                       std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_bert(keys, m);
  unknown = keys.unknown();
  return m;
}

// Liu et al. 2019, "RoBERTa". No token has one of the first rows of the table of positions: they begin behind the id
// of padding. The head has a GELU, whatever the layers have.
ModelConfig roberta_model(const nlohmann::json& config, const std::string& where, std::vector<std::string>& objections,
                          std::vector<std::string>& unknown) {
  ConfigKeys keys(config, where, objections);
  ModelConfig m;
  take_bert(keys, m);
  m.position_offset = keys.integer("pad_token_id", 1) + 1;
  if (m.position_offset < 1 || m.position_offset >= m.context)
    keys.object_to("'pad_token_id' is {} of {} positions", m.position_offset - 1, m.context);
  m.context -= m.position_offset;
  if (m.activation != Activation::gelu_erf)
    keys.object_to("'hidden_act' is {}: the head has gelu, and here both have the same",
                   keys.text("hidden_act", "gelu"));
  unknown = keys.unknown();
  return m;
}

nlohmann::ordered_json bert_config(const ModelConfig& m) {
  return {{"num_hidden_layers", m.layers},
          {"hidden_size", m.hidden},
          {"num_attention_heads", m.heads},
          {"intermediate_size", m.ffn},
          {"vocab_size", m.vocabulary},
          {"max_position_embeddings", m.context},
          {"type_vocab_size", m.segments},
          {"hidden_act", activation_name(m)},
          {"layer_norm_eps", m.norm_epsilon},
          {"hidden_dropout_prob", m.dropout_embedding},
          {"attention_probs_dropout_prob", m.dropout_attention},
          {"pad_token_id", nullptr},
          {"is_decoder", false},
          {"add_cross_attention", false}};
}

nlohmann::ordered_json roberta_config(const ModelConfig& m) {
  auto config = bert_config(m);
  config["max_position_embeddings"] = m.context + m.position_offset;
  config["pad_token_id"] = m.position_offset - 1;
  return config;
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
          bert_config};
}

// The layers are BERT's; the head has other names.
Family roberta_family() {
  using enum ForeignRule::Layout;
  auto family = bert_family();
  family.model_type = "roberta", family.architecture = "RobertaForMaskedLM", family.prefix = "roberta.";
  std::erase_if(family.rules, [](const auto& rule) { return std::string_view(rule.theirs).starts_with("cls."); });
  for (const auto& [theirs, ours] : {std::pair{"lm_head.dense.weight", "head.transform.weight"},
                                     {"lm_head.dense.bias", "head.transform.bias"},
                                     {"lm_head.layer_norm.weight", "head.transform_norm.weight"},
                                     {"lm_head.layer_norm.bias", "head.transform_norm.bias"},
                                     {"lm_head.bias", "head.bias"}})
    family.rules.push_back({theirs, same, {ours}});
  family.unused = {"@pooler.dense.weight", "@pooler.dense.bias"};
  family.tied = {{"lm_head.decoder.weight", "@embeddings.word_embeddings.weight"},
                 {"lm_head.decoder.bias", "lm_head.bias"}};
  family.model = roberta_model, family.config = roberta_config;
  return family;
}

}  // namespace trainyard::checkpoint

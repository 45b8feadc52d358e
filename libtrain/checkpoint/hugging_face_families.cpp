// The families: their tensors and the keys of their config.json.
#include "libtrain/checkpoint/hugging_face.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/layer_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace trainyard::checkpoint {

namespace {

using plan::Activation, plan::HeadForm, plan::ModelConfig, plan::Norm, plan::NormPosition, plan::Positions;
constexpr auto same = ForeignRule::Layout::same, transposed = ForeignRule::Layout::transposed;

// The keys of one config.json: which were asked for, and what they said that is not computed here. null is as good as
// absent, as it is in transformers.
class Keys {
 public:
  Keys(const nlohmann::json& json, const std::string& where, std::vector<std::string>& objections)
      : json_(json), object_(json, where), objections_(objections) {}

  bool has(const char* key) {
    known_.insert(key);
    return json_.contains(key) && !json_[key].is_null();
  }
  std::int64_t integer(const char* key) { return has(key), object_.integer(key); }
  std::int64_t integer(const char* key, std::int64_t usual) { return has(key) ? object_.integer(key) : usual; }
  double number(const char* key, double usual) { return has(key) ? object_.number(key) : usual; }
  bool boolean(const char* key, bool usual) { return has(key) ? object_.boolean(key) : usual; }
  std::string text(const char* key, const char* usual) { return has(key) ? object_.text(key) : usual; }
  const nlohmann::json& value(const char* key) { return known_.insert(key), object_.at(key); }

  template <class... A> void object_to(fmt::format_string<A...> format, A&&... values) {
    objections_.push_back(fmt::format(format, std::forward<A>(values)...));
  }
  // A switch that changes what is computed.
  void require(const char* key, bool value) {
    if (boolean(key, value) != value) object_to("'{}' is {}: only {} is computed here", key, !value, value);
  }
  void require_none(const char* key, const char* what) {
    if (has(key)) object_to("'{}': {} are not computed here", key, what);
  }
  void pass_over(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }
  std::vector<std::string> unknown() const {
    std::vector<std::string> out;
    for (const auto& [key, value] : json_.items())
      if (!known_.contains(key) && !value.is_null()) out.push_back(key);
    return out;
  }

 private:
  const nlohmann::json& json_;
  base::SortedJsonObject object_;
  std::vector<std::string>& objections_;
  std::set<std::string> known_;
};

// Each token sees all before it, in every layer.
void require_whole_attention(Keys& keys) {
  bool every_layer = false;
  if (keys.has("layer_types")) {
    const auto& types = keys.value("layer_types");
    every_layer = types.is_array() &&
                  std::all_of(types.begin(), types.end(), [](const auto& t) { return t == "full_attention"; });
    if (!every_layer) keys.object_to("'layer_types' has others than full_attention");
  }
  if (keys.has("sliding_window") && !every_layer)
    keys.object_to("'sliding_window': tokens see all before them here, not a window");
}

// What every family may have; what comes last, no forward pass looks at.
void take_usual(Keys& keys) {
  keys.require_none("quantization_config", "quantized weights");
  keys.require_none("auto_map", "models that come with code of their own");
  require_whole_attention(keys);
  keys.pass_over({"model_type",
                  "architectures",
                  "_name_or_path",
                  "transformers_version",
                  "torch_dtype",
                  "dtype",
                  "use_cache",
                  "bos_token_id",
                  "eos_token_id",
                  "pad_token_id",
                  "initializer_range",
                  "task_specific_params",
                  "gradient_checkpointing",
                  "tokenizer_class",
                  "id2label",
                  "label2id",
                  "return_dict",
                  "output_hidden_states",
                  "output_attentions",
                  "chunk_size_feed_forward",
                  "is_encoder_decoder",
                  "is_decoder",
                  "problem_type",
                  "_attn_implementation_autoset"});
}

ModelConfig gpt2_model(const nlohmann::json& config, const std::string& where, std::vector<std::string>& objections,
                       std::vector<std::string>& unknown) {
  Keys keys(config, where, objections);
  ModelConfig m;
  m.layers = keys.integer("n_layer"), m.hidden = keys.integer("n_embd"), m.heads = m.kv_heads = keys.integer("n_head");
  m.vocabulary = keys.integer("vocab_size"), m.context = keys.integer("n_positions");
  m.ffn = keys.has("n_inner") ? keys.integer("n_inner") : 4 * std::clamp<std::int64_t>(m.hidden, 0, 1 << 20);
  m.norm_epsilon = keys.number("layer_norm_epsilon", 1e-5);
  m.dropout_embedding = keys.number("embd_pdrop", 0.1), m.dropout_attention = keys.number("attn_pdrop", 0.1);
  m.dropout_attention_residual = m.dropout_ffn_residual = keys.number("resid_pdrop", 0.1);
  m.tied = keys.boolean("tie_word_embeddings", true);
  const auto f = keys.text("activation_function", "gelu_new");
  if (f == "gelu") m.activation = Activation::gelu_erf;
  else if (f != "gelu_new" && f != "gelu_pytorch_tanh")
    keys.object_to("'activation_function' is {}: of GPT-2 gelu_new and gelu are computed here", base::excerpt(f));
  keys.require("scale_attn_weights", true);
  keys.require("scale_attn_by_inverse_layer_idx", false);
  keys.require("add_cross_attention", false);
  take_usual(keys);
  keys.pass_over({"n_ctx", "reorder_and_upcast_attn", "summary_type", "summary_use_proj", "summary_activation",
                  "summary_proj_to_labels", "summary_first_dropout", "output_past", "n_special",
                  "predict_special_tokens"});
  unknown = keys.unknown();
  return m;
}

// What neither family has.
void parts_of_bert(const ModelConfig& m, std::vector<std::string>& out) {
  if (m.norm_position != NormPosition::pre) out.emplace_back("norm-position is not pre");
  if (m.embedding_norm) out.emplace_back("embedding-norm is on");
  if (m.segments > 0) out.emplace_back("there are segments");
  if (m.head != HeadForm::linear) out.emplace_back("head is not linear");
}

std::vector<std::string> gpt2_problems(const ModelConfig& m) {
  std::vector<std::string> out;
  if (m.norm != Norm::layer) out.emplace_back("norm is not layer");
  parts_of_bert(m, out);
  if (m.positions != Positions::learned) out.emplace_back("positions are not learned");
  if (m.activation == Activation::swiglu) out.emplace_back("activation is not gelu-tanh or gelu-erf");
  if (!m.biases) out.emplace_back("biases are off");
  if (m.kv_heads != m.heads) out.emplace_back("kv-heads are fewer than heads");
  return out;
}

nlohmann::ordered_json gpt2_config(const ModelConfig& m, std::vector<std::string>& left_out) {
  if (m.dropout_attention_residual != m.dropout_ffn_residual)
    left_out.push_back(
        fmt::format("dropout-ffn-residual {} (GPT-2 has one number for both residuals)", m.dropout_ffn_residual));
  return {{"n_layer", m.layers},
          {"n_embd", m.hidden},
          {"n_head", m.heads},
          {"n_inner", m.ffn},
          {"vocab_size", m.vocabulary},
          {"n_positions", m.context},
          {"n_ctx", m.context},
          {"activation_function", m.activation == Activation::gelu_erf ? "gelu" : "gelu_new"},
          {"layer_norm_epsilon", m.norm_epsilon},
          {"embd_pdrop", m.dropout_embedding},
          {"attn_pdrop", m.dropout_attention},
          {"resid_pdrop", m.dropout_attention_residual},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"reorder_and_upcast_attn", false},
          {"add_cross_attention", false}};
}

// Only the whole of each head is turned here.
void require_whole_heads(Keys& keys, const std::string& where) {
  if (keys.number("partial_rotary_factor", 1) != 1)
    keys.object_to("{}'partial_rotary_factor' turns a part of each head: only whole heads are turned here", where);
}

// Rotary angles: "rope_theta" and "rope_scaling", or in newer files both in "rope_parameters".
void llama_rotary(Keys& keys, ModelConfig& m, const std::string& where, std::vector<std::string>& objections) {
  m.rotary_base = keys.number("rope_theta", 10000);
  require_whole_heads(keys, "");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!keys.has(key)) continue;
    Keys rope(keys.value(key), fmt::format("{}: {}", where, key), objections);
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
    if (scaled) continue;  // its other keys are of the scaling
    if (rope.number("factor", 1) != 1) keys.object_to("'{}' has a factor and no type that scales", key);
    for (const auto& name : rope.unknown())
      keys.object_to("'{}' has the key {}, which angles without scaling do not have", key, base::excerpt(name));
  }
}

ModelConfig llama_model(const nlohmann::json& config, const std::string& where, std::vector<std::string>& objections,
                        std::vector<std::string>& unknown) {
  Keys keys(config, where, objections);
  ModelConfig m;
  m.norm = Norm::rms, m.positions = Positions::rotary, m.activation = Activation::swiglu;
  m.layers = keys.integer("num_hidden_layers"), m.hidden = keys.integer("hidden_size");
  m.heads = keys.integer("num_attention_heads"), m.kv_heads = keys.integer("num_key_value_heads", m.heads);
  m.ffn = keys.integer("intermediate_size"), m.vocabulary = keys.integer("vocab_size");
  m.context = keys.integer("max_position_embeddings");
  m.norm_epsilon = keys.number("rms_norm_eps", 1e-6);
  m.dropout_attention = keys.number("attention_dropout", 0);
  m.tied = keys.boolean("tie_word_embeddings", false);
  m.biases = keys.boolean("attention_bias", false);
  if (const auto mlp = keys.boolean("mlp_bias", false); mlp != m.biases)
    keys.object_to("'attention_bias' is {} and 'mlp_bias' is {}: here all linear layers have biases, or none", m.biases,
                   mlp);
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
  parts_of_bert(m, out);
  if (m.positions != Positions::rotary) out.emplace_back("positions are not rotary");
  if (m.activation != Activation::swiglu) out.emplace_back("activation is not swiglu");
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
          {"attention_bias", m.biases},
          {"mlp_bias", m.biases},
          {"attention_dropout", m.dropout_attention},
          {"pretraining_tp", 1}};
}

// Fused q, k, v; linear layers are Conv1D, whose weights are [in, out].
Family gpt2() {
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
          gpt2_model,
          gpt2_problems,
          gpt2_config};
}

// Rotary pairs are (i, i + d/2) here as in these files; those of Meta's own files, which are (2i, 2i + 1), are not
// read.
Family llama() {
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
          llama_model,
          llama_problems,
          llama_config};
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const auto& family : families()) names.emplace_back(family.model_type);
  return names;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all{gpt2(), llama()};
  return all;
}

ForeignModel model_of_config(const nlohmann::json& config, const std::string& name, const std::string& where) {
  const auto type = base::SortedJsonObject(config, where).text("model_type");
  ForeignModel found;
  for (const auto& family : families())
    if (type == family.model_type) found.family = &family;
  if (found.family == nullptr)
    throw base::InputError(fmt::format("{}: model_type {} is none that is known here", where, base::excerpt(type)),
                           fmt::format("known are {}", fmt::join(type_names(), ", ")));
  std::vector<std::string> objections;
  found.model = found.family->model(config, where, objections, found.unknown);
  found.model.name = name;
  for (const auto& problem : plan::problems(found.model)) objections.push_back(problem);
  if (!objections.empty())
    throw base::InputError(
        fmt::format("{}: such a model cannot be computed here: {}", where, fmt::join(objections, "; ")),
        "no weights were read; libtrain/README.md says what blocks there are");
  // Such files know nothing of lanes: those of a new run here.
  found.model.lanes = plan::default_lanes(found.model, base::DeviceKind::cpu);
  return found;
}

const Family& family_of(const plan::ModelConfig& model) {
  std::vector<std::string> lines;
  for (const auto& family : families()) {
    auto problems = family.problems(model);
    if (model.branches != plan::ModelConfig().branches) problems.emplace_back("its layers have other branches");
    if (plan::has_experts(model)) problems.emplace_back("its layers have experts");
    if (problems.empty()) return family;
    lines.push_back(fmt::format("no {} ({})", family.model_type, fmt::join(problems, ", ")));
  }
  throw base::InputError(fmt::format("transformers has no family for the model {}: {}", base::one_line(model.name),
                                     fmt::join(lines, "; ")),
                         "models like GPT-2 and like Llama can be written");
}

nlohmann::ordered_json config_of(const Family& family, const plan::ModelConfig& model, const char* dtype,
                                 std::vector<std::string>& left_out) {
  nlohmann::ordered_json json{{"architectures", {family.architecture}}, {"model_type", family.model_type}};
  json.update(family.config(model, left_out));
  json["tie_word_embeddings"] = model.tied;
  json["bos_token_id"] = nullptr;  // what ends a document is the tokenizer's business
  json["eos_token_id"] = nullptr;
  json["torch_dtype"] = dtype;
  return json;
}

}  // namespace trainyard::checkpoint

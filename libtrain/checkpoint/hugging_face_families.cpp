// The list of families, and the conversion between a model and a config.json.
#include "libtrain/base/error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/hugging_face_keys.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace trainyard::checkpoint {

namespace {

// Requires that each token attends to all earlier tokens, in every layer.
void require_whole_attention(ConfigKeys& keys) {
  bool every_layer = false;
  if (keys.has("layer_types")) {
    const auto& types = keys.value("layer_types");
    every_layer = types.is_array() &&
                  std::all_of(types.begin(), types.end(), [](const auto& t) { return t == "full_attention"; });
    if (!every_layer) keys.object_to("'layer_types' has types other than full_attention");
  }
  if (keys.has("sliding_window") && !every_layer)
    keys.object_to("'sliding_window': here a token attends to all tokens before it, not to a window");
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const auto& family : families()) names.emplace_back(family.model_type);
  return names;
}

}  // namespace

void take_usual(ConfigKeys& keys) {
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

void problems_of_variants(const plan::ModelConfig& m, std::vector<std::string>& out) {
  if (m.norm_offset != 0) out.emplace_back("norm-offset is not 0");
  if (m.embedding_scale != 1) out.emplace_back("embedding-scale is not 1");
  if (m.logit_softcap != 0) out.emplace_back("logit-softcap is not 0");
  if (m.position_offset != 0) out.emplace_back("position-offset is not 0");
}

void problems_of_decoder(const plan::ModelConfig& m, std::vector<std::string>& out) {
  if (!m.attention.causal) out.emplace_back("attention is not causal");
  if (m.norm_position != plan::NormPosition::pre) out.emplace_back("norm-position is not pre");
  if (m.embedding_norm) out.emplace_back("embedding-norm is on");
  problems_of_variants(m, out);
  if (m.segments > 0) out.emplace_back("there are segments");
  if (m.head != plan::HeadForm::linear) out.emplace_back("head is not linear");
}

const std::vector<Family>& families() {
  static const std::vector<Family> all{gpt2_family(), llama_family(), bert_family()};
  return all;
}

ForeignModel model_of_config(const nlohmann::json& config, const std::string& name, const std::string& where) {
  const auto type = base::SortedJsonObject(config, where).text("model_type");
  ForeignModel found;
  for (const auto& family : families())
    if (type == family.model_type) found.family = &family;
  if (found.family == nullptr)
    throw base::InputError(fmt::format("{}: model_type {} is not supported", where, base::excerpt(type)),
                           fmt::format("supported are {}", fmt::join(type_names(), ", ")));
  std::vector<std::string> objections;
  found.model = found.family->model(config, where, objections, found.unknown);
  found.model.name = name;
  for (const auto& problem : plan::problems(found.model)) objections.push_back(problem);
  if (!objections.empty())
    throw base::InputError(
        fmt::format("{}: such a model cannot be computed here: {}", where, fmt::join(objections, "; ")),
        "no weights were read; libtrain/design/blocks.md says what blocks there are");
  // These files have no reduction lanes; the model gets the lanes of a new run.
  found.model.lanes = plan::default_lanes(found.model, base::DeviceKind::cpu);
  return found;
}

const Family& family_of(const plan::ModelConfig& model) {
  std::vector<std::string> lines;
  for (const auto& family : families()) {
    auto problems = family.problems(model);
    if (model.branches != plan::ModelConfig().branches) problems.emplace_back("its layers have other branches");
    if (plan::has_experts(model)) problems.emplace_back("its layers have experts");
    if (model.attention.layout != plan::AttentionConfig().layout)
      problems.emplace_back(fmt::format("attention-layout is {}", fmt::join(model.attention.layout, ", ")));
    if (problems.empty()) return family;
    lines.push_back(fmt::format("no {} ({})", family.model_type, fmt::join(problems, ", ")));
  }
  throw base::InputError(fmt::format("transformers has no family for the model {}: {}", base::one_line(model.name),
                                     fmt::join(lines, "; ")),
                         "models like GPT-2, like Llama and like BERT, with dense attention, can be written");
}

nlohmann::ordered_json config_of(const Family& family, const plan::ModelConfig& model, const char* dtype,
                                 std::vector<std::string>& left_out) {
  nlohmann::ordered_json json{{"architectures", {family.architecture}}, {"model_type", family.model_type}};
  json.update(family.config(model, left_out));
  json["tie_word_embeddings"] = model.tied;
  json["bos_token_id"] = nullptr;  // the caller adds the checkpoint's own ids afterwards
  json["eos_token_id"] = nullptr;
  json["torch_dtype"] = dtype;
  return json;
}

}  // namespace trainyard::checkpoint

// The list of families, and the conversion between a model and a config.json.
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/hugging_face_keys.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace trainyard::checkpoint {

namespace {

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const auto& family : families()) names.emplace_back(family.model_type);
  return names;
}

// Models that look like a family's, and are not.
const char* difference_of_relative(const std::string& type) {
  if (type == "umt5") return ": unlike t5, each of its layers has a table of relative positions";
  if (type == "longt5") return ": unlike t5, its encoder attends to blocks, or to blocks and summaries";
  if (type == "switch_transformers") return ": unlike t5, it has experts, whose gate is of another kind";
  return "";
}

// The settings of a model that only training reads, and that a config.json may lack.
bool only_trains(const std::string& key) {
  static const std::set<std::string> of_experts = {"experts-capacity-factor", "experts-evaluation-capacity-factor",
                                                   "experts-min-capacity",    "experts-overflow",
                                                   "experts-noise",           "experts-placement",
                                                   "experts-balance-over",    "experts-balance-loss",
                                                   "experts-z-loss",          "experts-bias-rate"};
  return key.starts_with("dropout-") || key == "initial-values" || of_experts.contains(key);
}

std::vector<std::int64_t> of_all_layers(const std::vector<std::int64_t>& windows, std::int64_t layers) {
  std::vector<std::int64_t> all(base::size(layers));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = windows[i % windows.size()];
  return all;
}

// The model with one spelling for what may be written in several ways.
plan::ModelConfig canonical(plan::ModelConfig m) {
  m.name.clear(), m.lanes = 1;
  if (m.layers > 0 && m.layers <= 10000 && !m.attention.window_tokens.empty())
    m.attention.window_tokens = of_all_layers(m.attention.window_tokens, m.layers);
  if (m.heads > 0) m.head_size = m.head_dim();
  if (m.head_size > 0 && m.query_scale == 1 / std::sqrt(static_cast<double>(m.head_size))) m.query_scale = 0;
  if (m.rotary.scaling == plan::RotaryScaling::none && m.rotary.local_base == m.rotary_base) m.rotary.local_base = 0;
  auto& e = m.experts;
  if (!plan::has_experts(m)) {
    e = {};
  } else {
    e.ffn = plan::expert_width(m);
    if (e.every == 1 && e.dense_layers == 0) m.ffn = e.ffn;  // no layer has the other width
    const auto weights = plan::weights_of(e.weights, e.top_k);
    e.weights = weights == plan::GateWeights::kept ? plan::GateWeights::chosen : weights;
    if (e.count.size() > 1 && std::all_of(e.count.begin(), e.count.end(), [&](auto n) { return n == e.count[0]; }))
      e.count = {e.count[0]};
  }
  return m;
}

struct Difference {
  std::string key, value, other;
};
std::vector<Difference> differences_of(const plan::ModelConfig& one, const plan::ModelConfig& other) {
  auto a = canonical(one), b = canonical(other);
  const auto of_a = plan::fields_of(a), of_b = plan::fields_of(b);
  std::vector<Difference> out;
  for (std::size_t i = 0; i < of_a.size(); ++i)
    if (of_a[i].get() != of_b[i].get()) out.push_back({of_a[i].name, of_a[i].get(), of_b[i].get()});
  return out;
}

nlohmann::ordered_json whole_config(const Family& family, const plan::ModelConfig& model) {
  nlohmann::ordered_json json{{"architectures", {family.architecture}}, {"model_type", family.model_type}};
  json.update(family.config(model));
  json["tie_word_embeddings"] = model.tied;
  return json;
}

// What a reader of the family's config.json would take the model for.
struct ReadBack {
  plan::ModelConfig model;
  std::vector<std::string> objections;
};
ReadBack read_back(const Family& family, const plan::ModelConfig& model) {
  ReadBack out;
  std::vector<std::string> unknown;
  try {
    out.model = family.model(nlohmann::json(whole_config(family, model)), "config.json", out.objections, unknown);
  } catch (const base::InputError& e) {
    out.objections.emplace_back(e.what());
  }
  return out;
}

// Why a model does not belong to a family; empty if it does.
std::vector<std::string> problems_in(const Family& family, const plan::ModelConfig& model) {
  const auto back = read_back(family, model);
  auto out = back.objections;
  for (const auto& d : differences_of(model, back.model))
    if (!only_trains(d.key))
      out.push_back(fmt::format("{} is {}, not {}", d.key, base::excerpt(d.value), base::excerpt(d.other)));
  return out;
}

}  // namespace

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

void take_usual(ConfigKeys& keys) {
  keys.require_none("quantization_config", "quantized weights");
  keys.pass_over(
      {"model_type",
       "auto_map",  // transformers has each of these families itself, and asks for no other code
       "architectures", "_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache", "bos_token_id",
       "eos_token_id", "pad_token_id", "initializer_range", "task_specific_params", "gradient_checkpointing",
       "tokenizer_class", "id2label", "label2id", "return_dict", "output_hidden_states", "output_attentions",
       "chunk_size_feed_forward", "is_encoder_decoder", "is_decoder", "problem_type", "_attn_implementation_autoset",
       // Of versions before 5, which kept settings of generation and of other tasks here.
       "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty", "do_sample",
       "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "finetuning_task",
       "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length", "min_length",
       "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "prefix",
       "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "sep_token_id", "suppress_tokens",
       "temperature", "tf_legacy_loss", "top_k", "top_p", "torchscript", "typical_p", "use_bfloat16",
       // Written by programs that convert or fine-tune.
       "transformers.js_config", "unsloth_fixed", "unsloth_version"});
  // Dropout under the names of BERT, which is read in that family alone.
  keys.pass_over({"hidden_dropout_prob", "attention_probs_dropout_prob"});
}

void take_norm_epsilon(ConfigKeys& keys, plan::ModelConfig& m, const char* key, double usual) {
  m.norm_epsilon = keys.number(key, usual);
  if (m.norm_epsilon < 1e-12 || m.norm_epsilon > 1)
    keys.object_to("'{}' is {}: here it is from 1e-12 to 1", key, m.norm_epsilon);
}

bool is_tanh_gelu(const std::string& activation) {
  for (const char* name : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"})
    if (activation == name) return true;
  return false;
}

void take_plain_activation(ConfigKeys& keys, plan::ModelConfig& m, const char* key, const char* usual) {
  const auto f = keys.text(key, usual);
  if (f == "gelu") m.activation = plan::Activation::gelu_erf;
  else if (is_tanh_gelu(f)) m.activation = plan::Activation::gelu_tanh;
  else if (f == "relu") m.activation = plan::Activation::relu;
  else keys.object_to("'{}' is {}: gelu, gelu_new and relu are computed here", key, base::excerpt(f));
}

const char* activation_name(const plan::ModelConfig& m) {
  switch (m.activation) {
    case plan::Activation::gelu_erf: return "gelu";
    case plan::Activation::relu: return "relu";
    default: return "gelu_new";
  }
}

const std::vector<Family>& families() {
  static const std::vector<Family> all{
      gpt2_family(),  llama_family(),  mistral_family(), qwen2_family(), qwen3_family(),   phi3_family(),
      olmo2_family(), gemma2_family(), gemma3_family(),  neox_family(),  mixtral_family(), qwen3_moe_family(),
      olmoe_family(), bert_family(),   roberta_family(), t5_family(),    mt5_family()};
  return all;
}

ForeignModel model_of_config(const nlohmann::json& config, const std::string& name, const std::string& where,
                             const std::vector<std::string>& ignored) {
  const auto type = base::SortedJsonObject(config, where, damaged_config).text("model_type");
  ForeignModel found;
  for (const auto& family : families())
    if (type == family.model_type) found.family = &family;
  if (found.family == nullptr)
    throw base::InputError(
        fmt::format("{}: model_type {} is not supported{}", where, base::excerpt(type), difference_of_relative(type)),
        fmt::format("supported are {}", fmt::join(type_names(), ", ")));
  std::vector<std::string> objections, unknown;
  found.model = found.family->model(config, where, objections, unknown);
  found.model.name = name;
  // These speak of a model file, so they are told only where no key is named.
  if (objections.empty()) objections = plan::problems(found.model);
  if (!objections.empty())
    throw base::InputError(
        fmt::format("{}: such a model cannot be computed here: {}", where, fmt::join(objections, "; ")),
        "no weights were read; libtrain/design/blocks.md says what blocks there are");
  for (const auto& key : ignored)
    if (std::count(unknown.begin(), unknown.end(), key) == 0)
      throw base::UsageError(
          base::text("$ignore-keys {} has no effect: {}", base::excerpt(key),
                     !config.contains(key)
                         ? fmt::format("{} has no such key", where)
                         : fmt::format("the key of {} is known here, and no key is ignored that is", where)),
          "leave it out");
  std::erase_if(unknown, [&](const auto& key) { return std::count(ignored.begin(), ignored.end(), key) > 0; });
  if (!unknown.empty()) {
    const auto names = base::one_line(fmt::format("{}", fmt::join(unknown, ",")));
    throw base::InputError(
        fmt::format("{}: {} {} not known here: {}", where,
                    base::counted(static_cast<std::int64_t>(unknown.size()), "key"), unknown.size() == 1 ? "is" : "are",
                    names),
        base::text("a key may change what the model computes; if none of these does, give $ignore-keys {}", names));
  }
  // These files have no reduction lanes; the model gets the lanes of a new run.
  found.model.lanes = plan::default_lanes(found.model, base::DeviceKind::cpu);
  return found;
}

bool computes_same(const plan::ModelConfig& one, const plan::ModelConfig& other) {
  const auto all = differences_of(one, other);
  return std::all_of(all.begin(), all.end(), [](const auto& d) { return only_trains(d.key); });
}

const Family& family_of(const plan::ModelConfig& model, const std::string& model_type) {
  struct Other {
    const Family* family;
    std::vector<std::string> problems;
  };
  std::vector<Other> others;
  const Family* first = nullptr;
  for (const auto& family : families()) {
    auto problems = problems_in(family, model);
    if (problems.empty() && family.model_type == model_type) return family;
    if (problems.empty() && first == nullptr) first = &family;
    others.push_back({&family, std::move(problems)});
  }
  if (first != nullptr) return *first;
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.problems.size() < b.problems.size(); });
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < 3; ++i)
    lines.push_back(fmt::format("no {} ({})", others[i].family->model_type, fmt::join(others[i].problems, ", ")));
  throw base::InputError(fmt::format("transformers has no family for the model {}: {}", base::one_line(model.name),
                                     fmt::join(lines, "; ")),
                         fmt::format("the families that can be written are {}", fmt::join(type_names(), ", ")));
}

nlohmann::ordered_json config_of(const Family& family, const plan::ModelConfig& model, const char* dtype,
                                 std::vector<std::string>& left_out) {
  auto json = whole_config(family, model);
  json["bos_token_id"] = nullptr;  // the caller adds the checkpoint's own ids afterwards
  json["eos_token_id"] = nullptr;
  json["torch_dtype"] = dtype;
  for (const auto& d : differences_of(model, read_back(family, model).model))
    left_out.push_back(fmt::format("{} {}", d.key, base::excerpt(d.value)));
  return json;
}

}  // namespace trainyard::checkpoint

// Presets of published shapes, models from TOML, and checks of a model.
#include "libtrain/plan/spec/model_config.h"

#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
#include "libtrain/base/foreign_files.h"
#include "libtrain/base/nearest.h"
#include "libtrain/plan/model_file/attention_problems.h"
#include "libtrain/plan/blocks/block_kind.h"
#include "libtrain/plan/model_file/expert_problems.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/grid/ranges.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::plan {

namespace {

struct Shape {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocabulary, context;
};

ModelConfig gpt(const std::string& name, Shape s) {
  ModelConfig m;
  m.name = name;
  m.layers = s.layers, m.hidden = s.hidden, m.heads = s.heads, m.kv_heads = s.kv_heads, m.ffn = s.ffn;
  m.vocabulary = s.vocabulary, m.context = s.context;
  return m;
}

enum class Head { own, tied };

ModelConfig llama(const std::string& name, Shape s, double rotary_base, Head head) {
  auto m = gpt(name, s);
  m.norm = Norm::rms, m.positions = Positions::rotary, m.activation = Activation::swiglu;
  m.biases = false, m.tied = head == Head::tied;
  m.rotary_base = rotary_base;
  return m;
}

ModelConfig with_experts(ModelConfig m, std::int64_t count, std::int64_t top_k, const std::string& capacity_factor,
                         std::int64_t every) {
  m.experts.count = {count}, m.experts.top_k = top_k, m.experts.capacity_factor = capacity_factor;
  m.experts.every = every;
  return m;
}

// Dai et al. (2024), "DeepSeekMoE", the model of 16 B: 64 experts of width 1408, of which a token chooses 6, 2 shared
// experts, and a first layer without experts. Its balance loss is over each sequence; here it is over each micro-batch.
ModelConfig deepseek_16b() {
  auto m = with_experts(llama("deepseek-16b", {28, 2048, 16, 16, 10944, 0, 4096}, 10000, Head::own), 64, 6, "none", 1);
  m.experts.ffn = 1408, m.experts.shared = 2, m.experts.dense_layers = 1, m.experts.balance_loss = 0.001;
  m.experts.weights = GateWeights::scores, m.norm_epsilon = 1e-6;
  return m;
}

// Jiang et al. (2024). The balance loss of its code in transformers counts both choices, over all layers at once and
// without dividing by two.
ModelConfig mixtral_8x7b() {
  auto m = with_experts(llama("mixtral-8x7b", {32, 4096, 32, 8, 14336, 0, 32768}, 1000000, Head::own), 8, 2, "none", 1);
  m.experts.balance_over = BalanceOver::all;
  return m;
}

// Devlin et al. (2019), "BERT", section 3, without the pooler and the sentence head that fine-tuning adds.
ModelConfig bert(const std::string& name, Shape s) {
  auto m = gpt(name, s);
  m.attention.causal = false;
  m.norm_position = NormPosition::post, m.activation = Activation::gelu_erf, m.norm_epsilon = 1e-12;
  m.embedding_norm = true, m.segments = 2, m.head = HeadForm::masked;
  return m;
}

// Vocabulary 0: it comes from the shards, or from --vocabulary.
const std::vector<ModelConfig>& presets() {
  static const std::vector<ModelConfig> all = {
      gpt("gpt2-nano", {2, 32, 4, 4, 128, 0, 64}),
      gpt("gpt2-micro", {4, 128, 4, 4, 512, 0, 256}),
      gpt("gpt2", {12, 768, 12, 12, 3072, 0, 1024}),
      gpt("gpt2-medium", {24, 1024, 16, 16, 4096, 0, 1024}),
      gpt("gpt2-large", {36, 1280, 20, 20, 5120, 0, 1024}),
      gpt("gpt2-xl", {48, 1600, 25, 25, 6400, 0, 1024}),
      gpt("gpt3-175b", {96, 12288, 96, 96, 49152, 0, 2048}),
      llama("llama-nano", {2, 32, 4, 2, 96, 0, 64}, 10000, Head::own),
      llama("llama-1b", {16, 2048, 32, 8, 8192, 0, 8192}, 500000, Head::tied),
      llama("llama-8b", {32, 4096, 32, 8, 14336, 0, 8192}, 500000, Head::own),
      bert("bert-nano", {2, 32, 4, 4, 128, 0, 64}),
      bert("bert-base", {12, 768, 12, 12, 3072, 0, 512}),
      bert("bert-large", {24, 1024, 16, 16, 4096, 0, 512}),
      with_experts(gpt("moe-nano", {2, 32, 4, 4, 128, 0, 64}), 4, 1, "1.25", 2),
      with_experts(gpt("gpt2-moe-8", {12, 768, 12, 12, 3072, 0, 1024}), 8, 1, "1.25", 2),
      with_experts(gpt("nlg-350m-moe-128", {24, 1024, 16, 16, 4096, 0, 2048}), 128, 1, "1.25", 2),
      mixtral_8x7b(),
      deepseek_16b(),
  };
  return all;
}

// InputError for problems that no flag could fix. The flags for vocabulary and lanes come later.
void require_whole(ModelConfig m, const std::string& path) {
  if (m.vocabulary == 0) m.vocabulary = ranges::vocabulary.low;
  m.lanes = 1;
  auto wrong = problems(m);
  for (auto& text : unread_expert_keys(m)) wrong.push_back(std::move(text));
  if (!wrong.empty())
    throw base::InputError(fmt::format("{}: {}", path, fmt::join(wrong, "; ")),
                           "change the model: train --help-model describes its keys");
}

// What a folder is that was given as a model.
[[noreturn]] void refuse_folder(const std::string& path) {
  std::error_code error;
  const auto has = [&](const char* name) { return std::filesystem::exists(path + "/" + name, error); };
  auto way = base::hugging_face_hint(path);
  if (has("manifest.json") || has("checkpoints"))
    way = fmt::format("train --init-from {} takes the model and the weights of a checkpoint or a run", path);
  throw base::InputError(fmt::format("{} is a folder, and a model is a preset or a TOML file", path),
                         way.empty() ? "train --help-model describes the file" : way);
}

}  // namespace

std::int64_t default_lanes(const ModelConfig& m, base::DeviceKind device) {
  if (device == base::DeviceKind::cuda) return 1;
  std::int64_t lanes = 8;
  const auto expert = has_experts(m) ? expert_width(m) : m.ffn;
  while (m.kv_heads % lanes != 0 || m.ffn % (16 * lanes) != 0 || expert % (16 * lanes) != 0 ||
         m.stored_vocabulary() % (16 * lanes) != 0) {
    if (lanes == 1) return 1;
    lanes /= 2;
  }
  return lanes;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> out;
  for (const auto& m : presets()) out.push_back(m.name);
  return out;
}

ModelConfig preset(std::string_view name) {
  for (const auto& m : presets())
    if (m.name == name) return m;
  const auto close = base::value_hint(name, preset_names());
  throw base::UsageError(fmt::format("there is no model '{}'; presets are {}", name, fmt::join(preset_names(), ", ")),
                         fmt::format("{}{}the path of a TOML file, which train --help-model describes", close,
                                     close.empty() ? "" : " Or give "));
}

ModelConfig load_model(const std::string& preset_or_toml, LayoutReader read_layout) {
  const bool preset_name = std::ranges::any_of(presets(), [&](const auto& m) { return m.name == preset_or_toml; });
  std::error_code error;
  ModelConfig m;
  if (preset_name || (!preset_or_toml.ends_with(".toml") && !std::filesystem::exists(preset_or_toml, error))) {
    m = preset(preset_or_toml);
    m.lanes = 0;
    return m;
  }
  if (std::filesystem::is_directory(preset_or_toml, error)) refuse_folder(preset_or_toml);
  auto fields = fields_of(m);
  base::read_toml(fields, preset_or_toml);
  follow(m, fields);
  take_file_layout(m, fields, preset_or_toml, read_layout);
  require_whole(m, preset_or_toml);
  return m;
}

std::vector<std::string> problems(const ModelConfig& m) {
  std::vector<std::string> out;
  auto copy = m;
  base::Complaints complaints;
  for (const auto& f : fields_of(copy))
    if (const auto text = f.get(); f.kind != base::FieldKind::integers && text.size() > longest_text(f))
      out.push_back(fmt::format("{} is {} bytes long, more than {}", f.name, text.size(), longest_text(f)));
    else complaints.attempt([&] { f.set(text, f.name); });
  for (const auto& [message, hint] : complaints.list()) out.push_back(message);
  if (m.vocabulary == 0) out.push_back("the vocabulary is not known: it comes from the shards, or from --vocabulary");
  if (m.lanes == 0) out.push_back("the lanes are not decided");
  if (!out.empty()) return out;
  // The prefix names parameters and dropout sites.
  std::vector<std::string> prefixes;
  for (const auto& name : m.branches) {
    prefixes.push_back(branch_kind(name).prefix());
    if (std::count(prefixes.begin(), prefixes.end(), prefixes.back()) == 2)
      out.push_back(fmt::format("two branches of a layer are called '{}': their parameters would have one name",
                                prefixes.back()));
  }
  if (m.hidden % m.heads != 0) out.push_back(fmt::format("hidden {} is not a multiple of heads {}", m.hidden, m.heads));
  else if (m.positions == Positions::rotary && m.head_dim() % 2 != 0)
    out.push_back(fmt::format("rotary positions need an even head size, not {}", m.head_dim()));
  if (m.heads % m.kv_heads != 0)
    out.push_back(fmt::format("heads {} is not a multiple of kv-heads {}", m.heads, m.kv_heads));
  if (m.head == HeadForm::masked && m.activation == Activation::swiglu)
    out.emplace_back("head masked does not support swiglu: use gelu-erf or gelu-tanh");
  const auto sliced = [&](const char* what, std::int64_t width) {
    if (width % m.lanes != 0) out.push_back(fmt::format("{} {} is not a multiple of lanes {}", what, width, m.lanes));
  };
  sliced("kv-heads", m.kv_heads);
  sliced("ffn", m.ffn);
  sliced("the stored vocabulary", m.stored_vocabulary());
  if (has_experts(m)) sliced("the experts' width", expert_width(m));
  for (auto& text : attention_problems(m)) out.push_back(std::move(text));
  for (auto& text : expert_problems(m)) out.push_back(std::move(text));
  return out;
}

}  // namespace trainyard::plan

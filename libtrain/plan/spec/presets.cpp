// Presets of published shapes.
#include "libtrain/plan/spec/presets.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"

#include <fmt/ranges.h>

#include <cstdint>

namespace trainyard::plan {

namespace {

struct PresetShape {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocabulary, context;
};

ModelConfig gpt(const std::string& name, PresetShape s) {
  ModelConfig m;
  m.name = name;
  m.layers = s.layers, m.hidden = s.hidden, m.heads = s.heads, m.kv_heads = s.kv_heads, m.ffn = s.ffn;
  m.vocabulary = s.vocabulary, m.context = s.context;
  return m;
}

enum class Head { own, tied };

ModelConfig llama(const std::string& name, PresetShape s, double rotary_base, Head head) {
  auto m = gpt(name, s);
  m.norm = Norm::rms, m.positions = Positions::rotary, m.activation = Activation::swiglu;
  m.biases = Biases::off, m.tied = head == Head::tied;
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
ModelConfig bert(const std::string& name, PresetShape s) {
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

}  // namespace

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

}  // namespace trainyard::plan

// Presets of published shapes.
#include "libtrain/plan/spec/presets.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"

#include <fmt/ranges.h>

#include <cmath>
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
  auto m =
      with_experts(llama("deepseek-16b", {28, 2048, 16, 16, 10944, 102400, 4096}, 10000, Head::own), 64, 6, "none", 1);
  m.experts.ffn = 1408, m.experts.shared = 2, m.experts.dense_layers = 1, m.experts.balance_loss = 0.001;
  m.experts.weights = GateWeights::scores, m.norm_epsilon = 1e-6;
  return m;
}

// Jiang et al. (2024). The balance loss of its code in transformers counts both choices, over all layers at once and
// without dividing by two.
ModelConfig mixtral_8x7b() {
  auto m =
      with_experts(llama("mixtral-8x7b", {32, 4096, 32, 8, 14336, 32000, 32768}, 1000000, Head::own), 8, 2, "none", 1);
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

// Grattafiori et al. (2024): Llama 3.1, 3.2 and 3.3.
ModelConfig llama_3(const std::string& name, PresetShape s, double factor, Head head) {
  auto m = llama(name, s, 500000, head);
  m.rotary.scaling = RotaryScaling::llama3, m.rotary.factor = factor, m.rotary.original = 8192;
  return m;
}

// Jiang et al. (2023), version 0.1, with a window.
ModelConfig mistral_7b() {
  auto m = llama("mistral-7b", {32, 4096, 32, 8, 14336, 32000, 32768}, 10000, Head::own);
  m.attention.window_tokens = {4096};
  return m;
}

ModelConfig mixtral_8x22b() {
  auto m =
      with_experts(llama("mixtral-8x22b", {56, 6144, 48, 8, 16384, 32000, 65536}, 1000000, Head::own), 8, 2, "none", 1);
  m.experts.balance_over = BalanceOver::all;
  return m;
}

// Yang et al. (2024), "Qwen2.5 technical report", table 1.
ModelConfig qwen2_5(const std::string& name, PresetShape s, Head head) {
  auto m = llama(name, s, 1000000, head);
  m.biases = Biases::qkv, m.norm_epsilon = 1e-6;
  return m;
}

// Yang et al. (2025), "Qwen3 technical report", tables 1 and 2. Heads have 128 columns, whatever the hidden size.
ModelConfig qwen3(const std::string& name, PresetShape s, Head head) {
  auto m = llama(name, s, 1000000, head);
  m.head_size = s.hidden / s.heads == 128 ? 0 : 128, m.qk_norm = QkNorm::head, m.norm_epsilon = 1e-6;
  return m;
}

ModelConfig qwen3_moe(const std::string& name, PresetShape s, std::int64_t width) {
  auto m = with_experts(qwen3(name, s, Head::own), 128, 8, "none", 1);
  m.experts.ffn = width, m.experts.weights = GateWeights::chosen, m.experts.balance_loss = 0.001;
  m.experts.balance_over = BalanceOver::all;
  return m;
}

// OLMo et al. (2024), "2 OLMo 2 furious".
ModelConfig olmo_2(const std::string& name, PresetShape s) {
  auto m = llama(name, s, 500000, Head::own);
  m.norm_position = NormPosition::inside_post, m.qk_norm = QkNorm::width, m.norm_epsilon = 1e-6;
  return m;
}

// Muennighoff et al. (2024), "OLMoE".
ModelConfig olmoe_7b() {
  auto m =
      with_experts(llama("olmoe-1b-7b", {16, 2048, 16, 16, 1024, 50304, 4096}, 10000, Head::own), 64, 8, "none", 1);
  m.qk_norm = QkNorm::width, m.experts.weights = GateWeights::scores, m.experts.balance_over = BalanceOver::all;
  return m;
}

// Abdin et al. (2024), "Phi-3 technical report": the models with a context of 4k.
ModelConfig phi_3(const std::string& name, PresetShape s) {
  auto m = llama(name, s, 10000, Head::own);
  m.attention.window_tokens = {2047};
  return m;
}

// Biderman et al. (2023), "Pythia", table 1; Black et al. (2022), "GPT-NeoX-20B".
ModelConfig neox(const std::string& name, std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                 std::int64_t vocabulary) {
  auto m = gpt(name, {layers, hidden, heads, heads, 4 * hidden, vocabulary, 2048});
  m.positions = Positions::rotary, m.rotary.fraction = 0.25, m.parallel_residual = true;
  m.activation = Activation::gelu_erf, m.tied = false;
  return m;
}

// `scalar`: scores are divided by its square root.
ModelConfig gemma(const std::string& name, PresetShape s, std::int64_t head, double scalar) {
  auto m = llama(name, s, 10000, Head::tied);
  m.norm_position = NormPosition::sandwich, m.norm_offset = 1, m.norm_epsilon = 1e-6;
  m.activation = Activation::geglu_tanh, m.embedding_scale = std::sqrt(static_cast<double>(s.hidden));
  if (s.hidden != head * s.heads) m.head_size = head;
  if (scalar != static_cast<double>(head)) m.query_scale = 1 / std::sqrt(scalar);
  return m;
}

// Gemma Team (2024), "Gemma 2", table 1.
ModelConfig gemma_2(const std::string& name, PresetShape s, std::int64_t head, double scalar) {
  auto m = gemma(name, s, head, scalar);
  m.attention.window_tokens = {4096, 0}, m.attention.softcap = 50, m.logit_softcap = 30;
  return m;
}

// Gemma Team (2025), "Gemma 3 technical report", without its vision part. Contexts above 32k are made by angles that
// are divided by 8 in the layers without a window.
ModelConfig gemma_3(const std::string& name, PresetShape s, std::int64_t head, double scalar) {
  auto m = gemma(name, s, head, scalar);
  const std::int64_t window = s.context > 32768 ? 1024 : 512;
  m.attention.window_tokens = {window, window, window, window, window, 0};
  m.qk_norm = QkNorm::head, m.rotary_base = 1000000, m.rotary.local_base = 10000;
  if (s.context > 32768) m.rotary.scaling = RotaryScaling::linear, m.rotary.factor = 8;
  return m;
}

// Liu et al. (2019), "RoBERTa": BERT with one segment, and positions that begin at row 2 of their table.
ModelConfig roberta(const std::string& name, PresetShape s) {
  auto m = bert(name, s);
  m.segments = 1, m.position_offset = 2, m.norm_epsilon = 1e-5;
  return m;
}

// An encoder of so many layers before the decoder's.
ModelConfig with_encoder(ModelConfig m, std::int64_t encoder) {
  m.encoder_layers = encoder, m.decoder_layers = m.layers - encoder;
  return m;
}

// Raffel et al. (2020), "Exploring the limits of transfer learning with a unified text-to-text transformer", version
// 1.0. `layers` are those of each part; `head` is the width of a head.
ModelConfig t5(const std::string& name, PresetShape s, std::int64_t head) {
  auto m = with_encoder(gpt(name, s), s.layers / 2);
  m.norm = Norm::rms, m.norm_epsilon = 1e-6, m.positions = Positions::relative, m.activation = Activation::relu;
  m.biases = Biases::off, m.query_scale = 1, m.initial_values = InitialValues::fan_in;
  m.head_scale = 1 / std::sqrt(static_cast<double>(s.hidden));
  if (s.hidden != head * s.heads) m.head_size = head;
  if (s.vocabulary > 0) m.decoder_start = 0;
  return m;
}

// Version 1.1, and Xue et al. (2021), "mT5".
ModelConfig t5_1_1(const std::string& name, PresetShape s) {
  auto m = t5(name, s, 64);
  m.activation = Activation::geglu_tanh, m.tied = false, m.head_scale = 1;
  return m;
}

// Kim et al. (2021), "Scalable and efficient MoE training for multitask multilingual models": Z-code M3. experts: 0 or
// so many in every other layer of each part, with random token selection.
ModelConfig zcode(const std::string& name, std::int64_t experts) {
  auto m = with_encoder(gpt(name, {36, 1024, 16, 16, 4096, 250000, 512}), 24);
  if (experts == 0) return m;
  m = with_experts(m, experts, 1, "1", 2);
  m.experts.evaluation_capacity_factor = "2", m.experts.overflow = Overflow::random;
  return m;
}

// With the published vocabularies.
const std::vector<ModelConfig>& presets() {
  static const std::vector<ModelConfig> all = {
      gpt("gpt2-nano", {2, 32, 4, 4, 128, 0, 64}),
      gpt("gpt2-micro", {4, 128, 4, 4, 512, 0, 256}),
      gpt("gpt2", {12, 768, 12, 12, 3072, 50257, 1024}),
      gpt("gpt2-medium", {24, 1024, 16, 16, 4096, 50257, 1024}),
      gpt("gpt2-large", {36, 1280, 20, 20, 5120, 50257, 1024}),
      gpt("gpt2-xl", {48, 1600, 25, 25, 6400, 50257, 1024}),
      gpt("gpt3-175b", {96, 12288, 96, 96, 49152, 51200, 2048}),
      llama("llama-nano", {2, 32, 4, 2, 96, 0, 64}, 10000, Head::own),
      llama("llama-1b", {16, 2048, 32, 8, 8192, 128256, 8192}, 500000, Head::tied),
      llama("llama-8b", {32, 4096, 32, 8, 14336, 128256, 8192}, 500000, Head::own),
      llama("llama-2-7b", {32, 4096, 32, 32, 11008, 32000, 4096}, 10000, Head::own),
      llama("llama-2-13b", {40, 5120, 40, 40, 13824, 32000, 4096}, 10000, Head::own),
      llama("llama-2-70b", {80, 8192, 64, 8, 28672, 32000, 4096}, 10000, Head::own),
      llama_3("llama-3.1-8b", {32, 4096, 32, 8, 14336, 128256, 131072}, 8, Head::own),
      llama_3("llama-3.1-70b", {80, 8192, 64, 8, 28672, 128256, 131072}, 8, Head::own),
      llama_3("llama-3.1-405b", {126, 16384, 128, 8, 53248, 128256, 131072}, 8, Head::own),
      llama_3("llama-3.2-1b", {16, 2048, 32, 8, 8192, 128256, 131072}, 32, Head::tied),
      llama_3("llama-3.2-3b", {28, 3072, 24, 8, 8192, 128256, 131072}, 32, Head::tied),
      mistral_7b(),
      qwen2_5("qwen2.5-0.5b", {24, 896, 14, 2, 4864, 151936, 32768}, Head::tied),
      qwen2_5("qwen2.5-1.5b", {28, 1536, 12, 2, 8960, 151936, 32768}, Head::tied),
      qwen2_5("qwen2.5-3b", {36, 2048, 16, 2, 11008, 151936, 32768}, Head::tied),
      qwen2_5("qwen2.5-7b", {28, 3584, 28, 4, 18944, 152064, 131072}, Head::own),
      qwen2_5("qwen2.5-14b", {48, 5120, 40, 8, 13824, 152064, 131072}, Head::own),
      qwen2_5("qwen2.5-32b", {64, 5120, 40, 8, 27648, 152064, 131072}, Head::own),
      qwen2_5("qwen2.5-72b", {80, 8192, 64, 8, 29568, 152064, 131072}, Head::own),
      qwen3("qwen3-0.6b", {28, 1024, 16, 8, 3072, 151936, 40960}, Head::tied),
      qwen3("qwen3-1.7b", {28, 2048, 16, 8, 6144, 151936, 40960}, Head::tied),
      qwen3("qwen3-4b", {36, 2560, 32, 8, 9728, 151936, 40960}, Head::tied),
      qwen3("qwen3-8b", {36, 4096, 32, 8, 12288, 151936, 40960}, Head::own),
      qwen3("qwen3-14b", {40, 5120, 40, 8, 17408, 151936, 40960}, Head::own),
      qwen3("qwen3-32b", {64, 5120, 64, 8, 25600, 151936, 40960}, Head::own),
      olmo_2("olmo-2-7b", {32, 4096, 32, 32, 11008, 100352, 4096}),
      olmo_2("olmo-2-13b", {40, 5120, 40, 40, 13824, 100352, 4096}),
      olmo_2("olmo-2-32b", {64, 5120, 40, 8, 27648, 100352, 4096}),
      phi_3("phi-3-mini", {32, 3072, 32, 32, 8192, 32064, 4096}),
      phi_3("phi-3-medium", {40, 5120, 40, 10, 17920, 32064, 4096}),
      neox("pythia-70m", 6, 512, 8, 50304),
      neox("pythia-160m", 12, 768, 12, 50304),
      neox("pythia-410m", 24, 1024, 16, 50304),
      neox("pythia-1b", 16, 2048, 8, 50304),
      neox("pythia-1.4b", 24, 2048, 16, 50304),
      neox("pythia-2.8b", 32, 2560, 32, 50304),
      neox("pythia-6.9b", 32, 4096, 32, 50432),
      neox("pythia-12b", 36, 5120, 40, 50688),
      neox("gpt-neox-20b", 44, 6144, 64, 50432),
      gemma_2("gemma-2-2b", {26, 2304, 8, 4, 9216, 256000, 8192}, 256, 256),
      gemma_2("gemma-2-9b", {42, 3584, 16, 8, 14336, 256000, 8192}, 256, 256),
      gemma_2("gemma-2-27b", {46, 4608, 32, 16, 36864, 256000, 8192}, 128, 144),
      gemma_3("gemma-3-1b", {26, 1152, 4, 1, 6912, 262144, 32768}, 256, 256),
      gemma_3("gemma-3-4b", {34, 2560, 8, 4, 10240, 262208, 131072}, 256, 256),
      gemma_3("gemma-3-12b", {48, 3840, 16, 8, 15360, 262208, 131072}, 256, 256),
      gemma_3("gemma-3-27b", {62, 5376, 32, 16, 21504, 262208, 131072}, 128, 168),
      bert("bert-nano", {2, 32, 4, 4, 128, 0, 64}),
      bert("bert-base", {12, 768, 12, 12, 3072, 30522, 512}),
      bert("bert-large", {24, 1024, 16, 16, 4096, 30522, 512}),
      roberta("roberta-base", {12, 768, 12, 12, 3072, 50265, 512}),
      roberta("roberta-large", {24, 1024, 16, 16, 4096, 50265, 512}),
      with_experts(gpt("moe-nano", {2, 32, 4, 4, 128, 0, 64}), 4, 1, "1.25", 2),
      with_experts(gpt("gpt2-moe-8", {12, 768, 12, 12, 3072, 50257, 1024}), 8, 1, "1.25", 2),
      with_experts(gpt("nlg-350m-moe-128", {24, 1024, 16, 16, 4096, 51200, 2048}), 128, 1, "1.25", 2),
      mixtral_8x7b(),
      mixtral_8x22b(),
      qwen3_moe("qwen3-30b-a3b", {48, 2048, 32, 4, 6144, 151936, 40960}, 768),
      qwen3_moe("qwen3-235b-a22b", {94, 4096, 64, 4, 12288, 151936, 40960}, 1536),
      olmoe_7b(),
      deepseek_16b(),
      t5("t5-nano", {4, 32, 4, 4, 128, 0, 64}, 8),
      t5("t5-small", {12, 512, 8, 8, 2048, 32128, 512}, 64),
      t5("t5-base", {24, 768, 12, 12, 3072, 32128, 512}, 64),
      t5("t5-large", {48, 1024, 16, 16, 4096, 32128, 512}, 64),
      t5("t5-3b", {48, 1024, 32, 32, 16384, 32128, 512}, 128),
      t5("t5-11b", {48, 1024, 128, 128, 65536, 32128, 512}, 128),
      t5_1_1("t5-v1.1-small", {16, 512, 6, 6, 1024, 32128, 512}),
      t5_1_1("t5-v1.1-base", {24, 768, 12, 12, 2048, 32128, 512}),
      t5_1_1("t5-v1.1-large", {48, 1024, 16, 16, 2816, 32128, 512}),
      t5_1_1("t5-v1.1-xl", {48, 2048, 32, 32, 5120, 32128, 512}),
      t5_1_1("t5-v1.1-xxl", {48, 4096, 64, 64, 10240, 32128, 512}),
      t5_1_1("mt5-small", {16, 512, 6, 6, 1024, 250112, 512}),
      t5_1_1("mt5-base", {24, 768, 12, 12, 2048, 250112, 512}),
      t5_1_1("mt5-large", {48, 1024, 16, 16, 2816, 250112, 512}),
      t5_1_1("mt5-xl", {48, 2048, 32, 32, 5120, 250112, 512}),
      t5_1_1("mt5-xxl", {48, 4096, 64, 64, 10240, 250112, 512}),
      zcode("zcode-0.7b", 0),
      zcode("zcode-1.8b", 8),
      zcode("zcode-10b", 64),
  };
  return all;
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> out;
  for (const auto& m : presets()) out.push_back(m.name);
  return out;
}

std::int64_t published_vocabulary(std::string_view name) {
  for (const auto& m : presets())
    if (m.name == name) return m.vocabulary;
  return 0;
}

ModelConfig preset(std::string_view name) {
  for (auto m : presets())
    if (m.name == name) return m.vocabulary = 0, m;
  const auto close = base::value_hint(name, preset_names());
  throw base::UsageError(fmt::format("there is no model '{}'; presets are {}", name, fmt::join(preset_names(), ", ")),
                         fmt::format("{}{}the path of a TOML file, which train --help-model describes", close,
                                     close.empty() ? "" : " Or give "));
}

}  // namespace trainyard::plan

// Presets of published shapes, TOML descriptions, and what can be wrong with one.
#include "libtrain/plan/model_config.h"

#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
#include "libtrain/base/nearest.h"

#include <algorithm>
#include <map>

namespace trainyard::plan {

namespace {

struct Shape { std::int64_t layers, hidden, heads, kv_heads, ffn, vocabulary, context; };

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

// Vocabulary 0: taken from the shards, or from --vocabulary.
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
  };
  return all;
}

// The enumerations and switches as text while fields are read.
struct Texts { std::string norm, positions, activation, biases, tied; };

std::string on_off(bool value) { return value ? "on" : "off"; }

bool switch_value(const std::string& key, const std::string& text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  throw base::UsageError(fmt::format("{} = '{}' is neither on nor off", key, text));
}

template <class E> E choice(const std::string& key, const std::string& text, const std::vector<std::pair<std::string, E>>& legal) {
  std::vector<std::string> names;
  for (const auto& [name, value] : legal) {
    if (name == text) return value;
    names.push_back(name);
  }
  throw base::UsageError(fmt::format("{} = '{}' is not known", key, text), fmt::format("did you mean '{}'?", base::nearest(text, names)));
}

std::vector<base::Field> fields_of(ModelConfig& m, Texts& t) {
  t = {m.norm == Norm::layer ? "layer" : "rms", m.positions == Positions::learned ? "learned" : "rotary",
       m.activation == Activation::gelu_tanh ? "gelu-tanh" : "swiglu", on_off(m.biases), on_off(m.tied)};
  base::FieldVisitor v;
  v("name", m.name, "model", "what reports call it");
  v("layers", m.layers, "model", "transformer layers, 1 to 10000");
  v("hidden", m.hidden, "model", "width of the residual stream");
  v("heads", m.heads, "model", "query heads");
  v("kv-heads", m.kv_heads, "model", "key-value heads");
  v("ffn", m.ffn, "model", "width inside the feed-forward part");
  v("vocabulary", m.vocabulary, "model", "tokens; 0: from the shards");
  v("context", m.context, "model", "longest sequence");
  v("norm", t.norm, "model", "layer or rms");
  v("positions", t.positions, "model", "learned or rotary");
  v("activation", t.activation, "model", "gelu-tanh or swiglu");
  v("biases", t.biases, "model", "on or off");
  v("tied", t.tied, "model", "on or off: the head uses the token table");
  v("dropout-embedding", m.dropout_embedding, "model", "probability");
  v("dropout-attention", m.dropout_attention, "model", "probability, on attention probabilities");
  v("dropout-attention-residual", m.dropout_attention_residual, "model", "probability, on the attention branch");
  v("dropout-ffn-residual", m.dropout_ffn_residual, "model", "probability, on the feed-forward branch");
  v("norm-epsilon", m.norm_epsilon, "model", "added to variances");
  v("rotary-base", m.rotary_base, "model", "base of rotary angles");
  return v.take();
}

void take_texts(ModelConfig& m, const Texts& t) {
  m.norm = choice<Norm>("norm", t.norm, {{"layer", Norm::layer}, {"rms", Norm::rms}});
  m.positions = choice<Positions>("positions", t.positions, {{"learned", Positions::learned}, {"rotary", Positions::rotary}});
  m.activation = choice<Activation>("activation", t.activation, {{"gelu-tanh", Activation::gelu_tanh}, {"swiglu", Activation::swiglu}});
  m.biases = switch_value("biases", t.biases);
  m.tied = switch_value("tied", t.tied);
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
  throw base::UsageError(fmt::format("there is no model '{}'", name), fmt::format("did you mean '{}'? Or give the path of a TOML file", base::nearest(name, preset_names())));
}

ModelConfig load_model(const std::string& preset_or_toml) {
  if (!preset_or_toml.ends_with(".toml")) return preset(preset_or_toml);
  ModelConfig m;
  Texts texts;
  auto fields = fields_of(m, texts);
  base::read_toml(fields, preset_or_toml);
  take_texts(m, texts);
  return m;
}

std::vector<std::pair<std::string, std::string>> to_pairs(const ModelConfig& model) {
  auto m = model;
  Texts texts;
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& f : fields_of(m, texts)) out.emplace_back(f.name, f.get());
  return out;
}

ModelConfig from_pairs(const std::vector<std::pair<std::string, std::string>>& pairs, const std::string& where) {
  ModelConfig m;
  Texts texts;
  auto fields = fields_of(m, texts);
  for (const auto& [name, value] : pairs) base::field_named(fields, name, where).set(value);
  take_texts(m, texts);
  return m;
}

std::vector<std::string> problems(const ModelConfig& m) {
  std::vector<std::string> out;
  const auto range = [&](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) out.push_back(fmt::format("{} = {} must lie between {} and {}", name, value, low, high));
  };
  range("layers", m.layers, 1, 10000);
  range("hidden", m.hidden, 1, 1 << 17);
  range("heads", m.heads, 1, 4096);
  range("kv-heads", m.kv_heads, 1, 4096);
  range("ffn", m.ffn, 1, 1 << 20);
  range("vocabulary", m.vocabulary, 1, 1 << 24);
  range("context", m.context, 1, 1 << 24);
  if (!out.empty()) return out;
  if (m.hidden % m.heads != 0) out.push_back(fmt::format("hidden {} is not a multiple of heads {}", m.hidden, m.heads));
  else if (m.positions == Positions::rotary && m.head_dim() % 2 != 0) out.push_back(fmt::format("rotary positions need an even head size, not {}", m.head_dim()));
  if (m.heads % m.kv_heads != 0) out.push_back(fmt::format("heads {} is not a multiple of kv-heads {}", m.heads, m.kv_heads));
  const auto probability = [&](const char* name, double p) {
    if (!(p >= 0 && p < 1)) out.push_back(fmt::format("{} = {} must be at least 0 and below 1", name, p));
  };
  probability("dropout-embedding", m.dropout_embedding);
  probability("dropout-attention", m.dropout_attention);
  probability("dropout-attention-residual", m.dropout_attention_residual);
  probability("dropout-ffn-residual", m.dropout_ffn_residual);
  if (!(m.norm_epsilon > 0)) out.push_back(fmt::format("norm-epsilon = {} must be positive", m.norm_epsilon));
  if (!(m.rotary_base > 1)) out.push_back(fmt::format("rotary-base = {} must exceed 1", m.rotary_base));
  return out;
}

}  // namespace trainyard::plan

// Keys, ranges, defaults.
#include "libtrain/plan/model_fields.h"

#include "libtrain/plan/block_kind.h"
#include "libtrain/plan/block_ranges.h"
#include "libtrain/plan/expert_kind.h"
#include "libtrain/plan/ranges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace trainyard::plan {

namespace {

constexpr base::Range<double> probability{0, 0.99};

std::int64_t usual_heads(std::int64_t hidden) {
  if (hidden >= 256 && hidden % 64 == 0) return hidden / 64;
  return hidden % 4 == 0 ? 4 : hidden % 2 == 0 ? 2 : 1;
}

// Shazeer (2020), "GLU variants improve transformer": two thirds of the usual width, because there are three matrices;
// rounded up to 64.
std::int64_t usual_ffn(const ModelConfig& m) {
  return m.activation == Activation::swiglu ? (m.hidden * 8 / 3 + 63) / 64 * 64 : 4 * m.hidden;
}

std::string default_text(const base::Field& f) {
  if (f.name == "heads") return "hidden / 64";
  if (f.name == "kv-heads") return "heads";
  if (f.name == "ffn") return "4 hidden";
  if (f.name == "lanes") return "up to 8; GPU 1";
  return f.get();
}

void expert_fields(base::FieldVisitor& v, ExpertConfig& e) {
  constexpr base::Range<std::int64_t> counts{1, 4096}, layers{1, 10000};
  const auto add = [&](const char* name, auto& member, const char* help, auto... may_be) {
    v(std::string("experts-") + name, member, "model", help, may_be...);
  };
  add("count", e.count, "of each layer that has experts, or one number for all; empty: no experts", counts);
  add("every", e.every, "each n-th layer has experts", layers);
  add("dense-layers", e.dense_layers, "layers at the beginning that have none", base::Range<std::int64_t>{0, 10000});
  add("top-k", e.top_k, "experts that a token goes to", counts);
  add("ffn", e.ffn, "width of an expert; 0: that of the feed-forward part", base::Range<std::int64_t>{0, 1 << 20});
  add("capacity-factor", e.capacity_factor, "places of an expert over its equal share of the tokens; none: no bound",
      base::DecimalOr{{"none"}});
  add("evaluation-capacity-factor", e.evaluation_capacity_factor, "the same in evaluations",
      base::DecimalOr{{"none", "same"}});
  add("min-capacity", e.min_capacity, "places that an expert has at least", base::Range<std::int64_t>{0, 1 << 24});
  add("overflow", e.overflow, "who keeps a place where more want one",
      base::Choices<Overflow>{
          {"random", Overflow::random}, {"position", Overflow::position}, {"probability", Overflow::probability}});
  add("noise", e.noise, "in training, on the gate's input, or on the logits for the choice",
      base::Choices<GateNoise>{
          {"none", GateNoise::none}, {"jitter", GateNoise::jitter}, {"gumbel", GateNoise::gumbel}});
  add("score", e.score, "of an expert; sigmoid: with a bias for the choice that each step moves",
      base::Choices<GateScore>{{"softmax", GateScore::softmax}, {"sigmoid", GateScore::sigmoid}});
  add("placement", e.placement, "who gets a place first: first choices, or all alike by token",
      base::Choices<GatePlacement>{
          {"usual", GatePlacement::usual}, {"choices", GatePlacement::choices}, {"tokens", GatePlacement::tokens}});
  add("balance-over", e.balance_over, "choices that balance-loss counts; usual: first for top-k up to 2, else all",
      base::Choices<BalanceOver>{
          {"usual", BalanceOver::usual}, {"first", BalanceOver::first}, {"all", BalanceOver::all}});
  add("weights", e.weights, "over the sum of the kept, or of all chosen, or scores as they are",
      base::Choices<GateWeights>{{"usual", GateWeights::usual},
                                 {"kept", GateWeights::kept},
                                 {"chosen", GateWeights::chosen},
                                 {"scores", GateWeights::scores}});
  add("scale", e.scale, "that weights are multiplied by", base::Range<double>{0.001, 1000});
  add("groups", e.groups, "groups of neighbouring experts, for a choice within some",
      base::Range<std::int64_t>{1, most_gate_groups});
  add("top-groups", e.top_groups, "groups that a token's experts are of",
      base::Range<std::int64_t>{1, most_gate_groups});
  add("bias-rate", e.bias_rate, "how far a step moves that bias", base::Range<double>{0, 1});
  add("residual", e.residual, "a feed-forward part beside the experts, mixed with them");
  add("shared", e.shared, "experts that all tokens go to", base::Range<std::int64_t>{0, 256});
  add("balance-loss", e.balance_loss, "coefficient of the loss that evens out the load", base::Range<double>{0, 100});
  add("z-loss", e.z_loss, "coefficient of the squared log-sum-exp of the gate's logits", base::Range<double>{0, 100});
  add("network", e.network, "what an expert is", base::Words{expert_names()});
}

void attention_fields(base::FieldVisitor& v, AttentionConfig& a) {
  constexpr base::Range<std::int64_t> blocks{1, 1 << 16};
  const auto add = [&](const char* name, auto& member, const char* help, auto... may_be) {
    v(std::string("attention-") + name, member, "model", help, may_be...);
  };
  add("layout", a.layout, "blocks that layers compute, in turn; sliding x3: that of three layers",
      base::WordList{{"dense", "fixed", "variable", "bigbird", "longformer", "sliding", "file"},
                     base::WordList::Times::yes});
  add("causal", a.causal, "no token sees a later one");
  add("block", a.block, "tokens of a block: 16, 32, 64, 128", base::Range<std::int64_t>{16, 128});
  add("window", a.window, "sliding, bigbird, longformer: blocks", blocks);
  add("local", a.local, "fixed: blocks of a window; variable: of each, the last repeats", blocks);
  add("global", a.global, "fixed: columns of a window; bigbird: first rows and columns",
      base::Range<std::int64_t>{0, 1 << 16});
  add("patterns", a.patterns, "fixed: heads have their columns in so many places", blocks);
  add("global-blocks", a.global_blocks, "variable, longformer: \"0, 5, 8:12\", ranges without their end",
      base::MaybeEmpty{});
  add("random", a.random, "bigbird, variable: columns drawn for a row; -1: 1, and 0 of variable",
      base::Range<std::int64_t>{-1, 1 << 16});
  add("horizontal", a.horizontal, "fixed, variable: global rows see everything; not causal");
  add("per-head", a.per_head, "draws, or patterns, of each head");
  add("shared-draws", a.shared_draws, "the same in all layers");
  add("seed", a.seed, "of draws", base::Range<std::uint64_t>{0, std::numeric_limits<std::int64_t>::max()});
  add("file", a.file, "file: an HDF5 file, beside this one; its block is attention-block");
  add("file-blocks", a.file_blocks, "file: in place of one, rows of blocks: \"0; 0 1; 0 2; 0:4\"");
}

// Breaks lines at 80 columns.
std::string presets_text() {
  std::string out;
  std::size_t used = std::string_view("Presets: ").size();
  for (const auto& name : preset_names()) {
    const bool breaks = used + name.size() + 1 > 80;
    out += fmt::format("{}{}", out.empty() ? "" : breaks ? ",\n  " : ", ", name);
    used = (breaks ? 2 : used + 2) + name.size();
  }
  return out;
}

constexpr const char* example = R"(hidden = 256
layers = 6
context = 512
norm = "rms"
positions = "rotary"
activation = "swiglu"
biases = "off"
tied = "off"
)";

}  // namespace

std::vector<base::Field> fields_of(ModelConfig& m) {
  base::FieldVisitor v;
  v("name", m.name, "model", "what reports call it");
  v("layers", m.layers, "model", "transformer layers", {1, 10000});
  v("hidden", m.hidden, "model", "width of the residual stream; a multiple of heads", {1, 1 << 17});
  v("heads", m.heads, "model", "query heads; below a hidden of 256: 4", {1, 4096});
  v("kv-heads", m.kv_heads, "model", "key-value heads; heads is a multiple of it", {1, 4096});
  v("ffn", m.ffn, "model", "width of the feed-forward part; with swiglu 8/3 hidden, rounded up to 64", {1, 1 << 20});
  v("vocabulary", m.vocabulary, "model", "tokens; 0: that of the shards", {0, ranges::vocabulary.high});
  v("context", m.context, "model", "longest sequence, in tokens", ranges::sequence);
  v("norm", m.norm, "model", "layer norm, or RMS norm",
    base::Choices<Norm>{{"layer", Norm::layer}, {"rms", Norm::rms}});
  v("norm-position", m.norm_position, "model", "before a branch, or behind its sum with the stream",
    base::Choices<NormPosition>{{"pre", NormPosition::pre}, {"post", NormPosition::post}});
  v("positions", m.positions, "model", "a learned table, or rotary angles (half-split pairs)",
    base::Choices<Positions>{{"learned", Positions::learned}, {"rotary", Positions::rotary}});
  v("embedding-norm", m.embedding_norm, "model", "of the embeddings' sum, before its dropout");
  v("segments", m.segments, "model", "rows of a table of segments; all tokens have the first; 0: no table",
    {0, 1 << 16});
  v("activation", m.activation, "model", "of the feed-forward part",
    base::Choices<Activation>{
        {"gelu-tanh", Activation::gelu_tanh}, {"gelu-erf", Activation::gelu_erf}, {"swiglu", Activation::swiglu}});
  v("head", m.head, "model", "masked: a layer, its norm and a bias of the tokens beside the table",
    base::Choices<HeadForm>{{"linear", HeadForm::linear}, {"masked", HeadForm::masked}});
  v("branches", m.branches, "model", "of a layer, comma-separated, in order", base::WordList{branch_names()});
  v("biases", m.biases, "model", "of the linear layers");
  v("tied", m.tied, "model", "on: the head uses the token table");
  v("dropout-embedding", m.dropout_embedding, "model", "probability", probability);
  v("dropout-attention", m.dropout_attention, "model", "probability, on attention probabilities", probability);
  v("dropout-attention-residual", m.dropout_attention_residual, "model", "probability, on the attention branch",
    probability);
  v("dropout-ffn-residual", m.dropout_ffn_residual, "model", "probability, on the feed-forward branch", probability);
  v("lanes", m.lanes, "model", "slices of every sum that tensor ranks share; --tensor-parallel divides it",
    ranges::lanes);
  v("norm-epsilon", m.norm_epsilon, "model", "added to variances", {1e-12, 1});
  v("rotary-base", m.rotary_base, "model", "base of rotary angles", {1.001, 1e12});
  attention_fields(v, m.attention);
  expert_fields(v, m.experts);
  return v.take();
}

std::size_t longest_text(const base::Field& f) {
  if (f.name == "attention-file-blocks") return longest_file_blocks;
  if (f.name == "attention-layout") return std::size_t{128} << 10;         // for as many layers as a model may have
  if (f.name == "attention-global-blocks") return std::size_t{128} << 10;  // for as many ranges as there may be
  return 8192;
}

bool is_name(const base::Field& f) { return f.name == "name" || f.name == "attention-file"; }

void follow(ModelConfig& m, const std::vector<base::Field>& fields) {
  const auto said = [&](const char* name) {
    return std::any_of(fields.begin(), fields.end(),
                       [&](const auto& f) { return f.name == name && f.source != base::from_default; });
  };
  if (!said("heads")) m.heads = usual_heads(m.hidden);
  if (!said("kv-heads")) m.kv_heads = m.heads;
  if (!said("lanes")) m.lanes = 0;
  if (!said("ffn")) m.ffn = std::min<std::int64_t>(usual_ffn(m), 1 << 20);
}

namespace {

// Breaks words that begin at `column` of a line before `width`; further lines begin at `column`, too.
std::string in_column(const std::string& text, std::size_t column, std::size_t width) {
  std::string out;
  std::size_t at = column;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(' ', begin), text.size());
    if (at + end - begin > width && at > column) {
      out.back() = '\n';
      out.append(column, ' ');
      at = column;
    }
    out.append(text, begin, end - begin + 1);
    at += end - begin + 1, begin = end + 1;
  }
  return out;
}

}  // namespace

std::string model_reference() {
  const auto in_cell = [](const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' || c == '*' || c == '_' ? std::string("\\") + c : std::string(1, c);
    return out;
  };
  ModelConfig m;
  std::string out =
      "# Keys of a model file\n\nA model file is TOML with these keys; a key that is left out has its default.\n"
      "This page is made from the program: `train --reference model-keys`.\n\n"
      "Hyphens and underscores are the same in keys and words.\n"
      "Keys that begin with `attention-` or `experts-` may stand in tables of these names, without the beginning.\n\n"
      "| key | default | values | what it is |\n|---|---|---|---|\n";
  for (const auto& f : fields_of(m))
    out += fmt::format("| `{}` | {} | {} | {} |\n", f.name, in_cell(default_text(f)),
                       in_cell(f.legal.empty() ? "text" : f.legal), in_cell(f.help));
  return out;
}

std::string model_help() {
  ModelConfig m;
  std::string out =
      "A model is a preset or a TOML file of these keys, one `key = value` a line;\na key that is left out has its "
      "default.\n";
  out += fmt::format("Presets: {}\n\n  {:<28}{:<15}{}\n", presets_text(), "key", "default", "values");
  for (const auto& f : fields_of(m)) {
    const auto key = fmt::format("{:<27} ", f.name);  // a long key uses room of the next column
    out += fmt::format("  {}{:<{}}{}\n      {}\n", key, default_text(f), 43 - key.size(),
                       in_column(f.legal.empty() ? "text" : f.legal, 45, 80), f.help);
  }
  return out +
         "\nHyphens and underscores are the same in keys and words. Keys that begin with\nattention- or experts- may "
         "stand in tables of these names: [experts]\ncount = 8, top-k = 2. Example, a small Llama (save it as "
         "llama.toml, then\ntrain --model llama.toml ...):\n\n" +
         example;
}

}  // namespace trainyard::plan

// Keys, ranges, defaults.
#include "libtrain/plan/model_file/model_fields.h"

#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/blocks/expert_registry.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/spec/block_ranges.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/presets.h"

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
std::int64_t usual_ffn(const ModelConfig& m) { return is_gated(m) ? (m.hidden * 8 / 3 + 63) / 64 * 64 : 4 * m.hidden; }

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
  add("count", e.count, "experts in each layer that has them, or one number for all; empty: none", counts);
  add("every", e.every, "every n-th layer has experts", layers);
  add("dense-layers", e.dense_layers, "layers at the beginning without experts", base::Range<std::int64_t>{0, 10000});
  add("top-k", e.top_k, "experts that each token goes to", counts);
  add("ffn", e.ffn, "width of an expert; 0: the width of the feed-forward part", base::Range<std::int64_t>{0, 1 << 20});
  add("capacity-factor", e.capacity_factor,
      "an expert's places, as a multiple of an equal share of the tokens; none: no limit", base::DecimalOr{{"none"}});
  add("evaluation-capacity-factor", e.evaluation_capacity_factor, "the capacity factor in evaluations",
      base::DecimalOr{{"none", "same"}});
  add("min-capacity", e.min_capacity, "places that each expert has at least", base::Range<std::int64_t>{0, 1 << 24});
  add("overflow", e.overflow, "which tokens keep a place if more choose an expert than it has places",
      base::Choices<Overflow>{
          {"random", Overflow::random}, {"position", Overflow::position}, {"probability", Overflow::probability}});
  add("noise", e.noise, "in training: jitter on the gate's input, or gumbel noise on its logits",
      base::Choices<GateNoise>{
          {"none", GateNoise::none}, {"jitter", GateNoise::jitter}, {"gumbel", GateNoise::gumbel}});
  add("score", e.score, "score of an expert; sigmoid: a bias, moved each step, is added for the choice",
      base::Choices<GateScore>{{"softmax", GateScore::softmax}, {"sigmoid", GateScore::sigmoid}});
  add("placement", e.placement, "who gets a place first: all first choices, or tokens in their order",
      base::Choices<GatePlacement>{
          {"usual", GatePlacement::usual}, {"choices", GatePlacement::choices}, {"tokens", GatePlacement::tokens}});
  add("balance-over", e.balance_over, "choices that balance-loss counts; usual: first for top-k up to 2, else all",
      base::Choices<BalanceOver>{
          {"usual", BalanceOver::usual}, {"first", BalanceOver::first}, {"all", BalanceOver::all}});
  add("weights", e.weights,
      "weights of a token's experts: scores divided by the sum of the kept or of all chosen, or the scores themselves",
      base::Choices<GateWeights>{{"usual", GateWeights::usual},
                                 {"kept", GateWeights::kept},
                                 {"chosen", GateWeights::chosen},
                                 {"scores", GateWeights::scores}});
  add("scale", e.scale, "factor by which the weights are multiplied", base::Range<double>{0.001, 1000});
  add("groups", e.groups, "groups of neighbouring experts; a token chooses within some of these",
      base::Range<std::int64_t>{1, most_gate_groups});
  add("top-groups", e.top_groups, "groups within which a token chooses its experts",
      base::Range<std::int64_t>{1, most_gate_groups});
  add("bias-rate", e.bias_rate, "how far a step moves the bias of the sigmoid score", base::Range<double>{0, 1});
  add("residual", e.residual, "a feed-forward part beside the experts, mixed with them");
  add("shared", e.shared, "experts that all tokens go to", base::Range<std::int64_t>{0, 256});
  add("balance-loss", e.balance_loss, "coefficient of the load-balancing loss", base::Range<double>{0, 100});
  add("z-loss", e.z_loss, "coefficient of the squared log-sum-exp of the gate's logits", base::Range<double>{0, 100});
  add("network", e.network, "network of each expert", base::Words{expert_names()});
}

void attention_fields(base::FieldVisitor& v, AttentionConfig& a) {
  constexpr base::Range<std::int64_t> blocks{1, 1 << 16};
  const auto add = [&](const char* name, auto& member, const char* help, auto... may_be) {
    v(std::string("attention-") + name, member, "model", help, may_be...);
  };
  add("layout", a.layout, "blocks of attention that the layers compute, in turn; sliding x3: three such layers",
      base::WordList{{"dense", "fixed", "variable", "bigbird", "longformer", "sliding", "file"},
                     base::WordList::Times::yes});
  add("causal", a.causal, "a token sees no later tokens");
  add("block", a.block, "tokens in a block: 16, 32, 64 or 128", base::Range<std::int64_t>{16, 128});
  add("window", a.window, "sliding, bigbird, longformer: blocks in a window", blocks);
  add("local", a.local, "fixed: blocks in a window; variable: blocks in each window, the last number repeats", blocks);
  add("global", a.global, "fixed: global columns in a window; bigbird: global first rows and columns",
      base::Range<std::int64_t>{0, 1 << 16});
  add("patterns", a.patterns, "fixed: different positions of the global columns; heads take them in turn", blocks);
  add("global-blocks", a.global_blocks, "variable, longformer: global blocks, as \"0, 5, 8:12\", where 8:12 is 8 to 11",
      base::MaybeEmpty{});
  add("random", a.random, "bigbird, variable: random columns in a row; -1: bigbird 1, variable 0",
      base::Range<std::int64_t>{-1, 1 << 16});
  add("horizontal", a.horizontal, "fixed, variable: also global rows, which see all tokens; not if causal");
  add("per-head", a.per_head, "random columns or patterns differ between heads");
  add("shared-draws", a.shared_draws, "all layers draw the same random columns");
  add("seed", a.seed, "seed of the random columns",
      base::Range<std::uint64_t>{0, std::numeric_limits<std::int64_t>::max()});
  add("file", a.file, "file: HDF5 file of the layout, beside this file; it sets attention-block");
  add("file-blocks", a.file_blocks, "file: instead of an HDF5 file, rows of blocks: \"0; 0 1; 0 2; 0:4\"");
  add("window-tokens", a.window_tokens,
      "tokens that a query sees at most, itself among them, of the layers in turn; 0: no limit",
      base::Range<std::int64_t>{0, std::int64_t{1} << 30});
  add("softcap", a.softcap, "c: attention scores become c tanh(score / c); 0: they stay", base::Range<double>{0, 1e6});
}

void rotary_fields(base::FieldVisitor& v, RotaryConfig& r) {
  constexpr base::Range<double> turns{0.001, 1e6};
  const auto add = [&](const char* name, auto& member, const char* help, auto... may_be) {
    v(std::string("rotary-") + name, member, "model", help, may_be...);
  };
  add("scaling", r.scaling, "how rotary angles are scaled, for contexts longer than those of training",
      base::Choices<RotaryScaling>{{"none", RotaryScaling::none},
                                   {"linear", RotaryScaling::linear},
                                   {"llama3", RotaryScaling::llama3},
                                   {"yarn", RotaryScaling::yarn}});
  add("factor", r.factor, "linear, llama3, yarn: the context is so many times longer", base::Range<double>{1, 1e6});
  add("low", r.low, "llama3: pairs with fewer turns within the original context are divided by the factor", turns);
  add("high", r.high, "llama3: pairs with more turns within the original context stay", turns);
  add("original", r.original, "llama3, yarn: the context before scaling, in tokens",
      base::Range<std::int64_t>{0, ranges::sequence.high});
  add("beta-fast", r.beta_fast, "yarn: pairs with more turns within the original context stay", turns);
  add("beta-slow", r.beta_slow, "yarn: pairs with fewer turns within the original context are divided by the factor",
      turns);
  add("attention-factor", r.attention_factor, "yarn: factor of cosines and sines; 0: 0.1 ln(factor) + 1",
      base::Range<double>{0, 1000});
  add("fraction", r.fraction, "the first part of each head, which rotates; the rest stays",
      base::Range<double>{0.001, 1});
  add("local-base", r.local_base, "rotary-base, unscaled, of layers with a window of tokens; 0: as in other layers",
      base::Range<double>{0, 1e12});
}

void adapter_fields(base::FieldVisitor& v, AdapterConfig& a) {
  const auto add = [&](const char* name, auto& member, const char* help, auto... may_be) {
    v(std::string("adapter-") + name, member, "model", help, may_be...);
  };
  std::vector<std::string> targets;
  for (const auto& target : adapter_targets) targets.emplace_back(target.name);
  add("rank", a.rank, "rank of low-rank adapters (LoRA), which alone are trained; a multiple of 8; 0: none",
      base::Range<std::int64_t>{0, 4096});
  add("alpha", a.alpha, "an adapter's output is multiplied by this / rank; 0: by 1", base::Range<double>{0, 1e6});
  add("on", a.on, "linear layers that have an adapter", base::WordList{targets});
}

// Breaks lines at 80 columns.
std::string presets_text() {
  std::string out;
  std::size_t used = std::string_view("Presets: ").size();
  for (const auto& name : preset_names()) {
    const bool breaks = used + name.size() + 3 > 80;
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
  v("name", m.name, "model", "name of the model in reports");
  v("layers", m.layers, "model", "transformer layers; with an encoder those of both parts", {1, 10000});
  v("encoder-layers", m.encoder_layers, "model", "layers of an encoder, to whose output all others attend; 0: none",
    {0, 9999});
  v("decoder-layers", m.decoder_layers, "model", "layers behind an encoder; 0: as many as the encoder has", {0, 9999});
  v("decoder-start", m.decoder_start, "model",
    "token with which inputs of the decoder begin, behind an encoder; -1: the end of a document",
    {-1, static_cast<int>(ranges::vocabulary.high) - 1});
  v("hidden", m.hidden, "model", "width of the residual stream; a multiple of heads, unless head-size is set",
    {1, 1 << 17});
  v("heads", m.heads, "model", "query heads; default for hidden below 256: 4", {1, 4096});
  v("kv-heads", m.kv_heads, "model", "key-value heads; heads must be a multiple of it", {1, 4096});
  v("head-size", m.head_size, "model", "width of a head; 0: hidden / heads", {0, 1024});
  v("qk-norm", m.qk_norm, "model", "RMS norms of queries and keys: of each head, or over the width of all heads",
    base::Choices<QkNorm>{{"none", QkNorm::none}, {"head", QkNorm::head}, {"width", QkNorm::width}});
  v("query-scale", m.query_scale, "model", "factor of attention's scores; 0: 1 / sqrt(width of a head)",
    base::Range<double>{0, 1000});
  v("ffn", m.ffn, "model", "width of the feed-forward part; with swiglu or geglu 8/3 hidden, rounded up to 64",
    {1, 1 << 20});
  v("vocabulary", m.vocabulary, "model", "tokens in the vocabulary; 0: the shards' vocabulary",
    {0, ranges::vocabulary.high});
  v("context", m.context, "model", "longest sequence, in tokens", ranges::sequence);
  v("norm", m.norm, "model", "layer norm, or RMS norm",
    base::Choices<Norm>{{"layer", Norm::layer}, {"rms", Norm::rms}});
  v("norm-position", m.norm_position, "model",
    "before each branch; after its sum with the residual stream; after the branch; or before and after it",
    base::Choices<NormPosition>{{"pre", NormPosition::pre},
                                {"post", NormPosition::post},
                                {"inside-post", NormPosition::inside_post},
                                {"sandwich", NormPosition::sandwich}});
  v("parallel-residual", m.parallel_residual, "model", "all branches of a layer see its input, each by its own norm");
  v("positions", m.positions, "model",
    "a learned table, rotary angles (half-split pairs), or a bias of attention's scores by distance",
    base::Choices<Positions>{
        {"learned", Positions::learned}, {"rotary", Positions::rotary}, {"relative", Positions::relative}});
  v("position-offset", m.position_offset, "model", "learned: rows at the beginning of the table that no token uses",
    {0, 1 << 16});
  v("relative-buckets", m.relative_buckets, "model", "relative: rows of the table of biases, which distances share",
    {2, most_relative_buckets});
  v("relative-distance", m.relative_distance, "model", "relative: keys so many tokens away share the last row",
    {2, most_relative_distance});
  v("embedding-scale", m.embedding_scale, "model", "factor of token embeddings, rounded to the working dtype",
    {1e-6, 1e6});
  v("embedding-norm", m.embedding_norm, "model", "a norm after the sum of the embeddings, before its dropout");
  v("segments", m.segments, "model", "rows of a segment embedding; all tokens use the first; 0: none", {0, 1 << 16});
  v("activation", m.activation, "model", "activation of the feed-forward part",
    base::Choices<Activation>{{"gelu-tanh", Activation::gelu_tanh},
                              {"gelu-erf", Activation::gelu_erf},
                              {"swiglu", Activation::swiglu},
                              {"relu", Activation::relu},
                              {"relu-squared", Activation::relu_squared},
                              {"geglu-tanh", Activation::geglu_tanh},
                              {"geglu-erf", Activation::geglu_erf}});
  v("head", m.head, "model", "masked: as in BERT, a layer, its norm and a bias for each token",
    base::Choices<HeadForm>{{"linear", HeadForm::linear}, {"masked", HeadForm::masked}});
  v("branches", m.branches, "model", "branches of a layer, in order, separated by commas",
    base::WordList{branch_names()});
  v("biases", m.biases, "model", "biases: of all linear layers; of q, k, v; of attention's",
    base::Choices<Biases>{
        {"on", Biases::on}, {"off", Biases::off}, {"qkv", Biases::qkv}, {"attention", Biases::attention}});
  v("head-scale", m.head_scale, "model", "factor of the head's input, before the product with its table", {1e-6, 1e6});
  v("logit-softcap", m.logit_softcap, "model", "c: logits become c tanh(logits / c); 0: they stay", {0, 1e6});
  v("tied", m.tied, "model", "on: the head uses the token embedding");
  v("dropout-embedding", m.dropout_embedding, "model", "dropout probability, on the embeddings", probability);
  v("dropout-attention", m.dropout_attention, "model", "dropout probability, on attention probabilities", probability);
  v("dropout-attention-residual", m.dropout_attention_residual, "model", "dropout probability, on the attention branch",
    probability);
  v("dropout-ffn-residual", m.dropout_ffn_residual, "model", "dropout probability, on the feed-forward branch",
    probability);
  v("dropout-ffn", m.dropout_ffn, "model", "dropout probability, inside the feed-forward part, behind its activation",
    probability);
  v("dropout-final-norm", m.dropout_final_norm, "model", "dropout probability, on the output of each final norm",
    probability);
  v("initial-values", m.initial_values, "model",
    "spread of weights. fixed: 0.02, less for what is added to the residual stream; fan-in: 1 / sqrt(inputs), and 1 "
    "for "
    "the token table",
    base::Choices<InitialValues>{{"fixed", InitialValues::fixed}, {"fan-in", InitialValues::fan_in}});
  v("lanes", m.lanes, "model", "slices of the sums that tensor-parallel ranks split", ranges::lanes);
  v("norm-epsilon", m.norm_epsilon, "model", "added to the variance in a norm", {1e-12, 1});
  v("norm-offset", m.norm_offset, "model", "0 or 1: a norm multiplies by its weight plus this", {0, 1});
  v("rotary-base", m.rotary_base, "model", "base of rotary angles", {1.001, 1e12});
  rotary_fields(v, m.rotary);
  attention_fields(v, m.attention);
  expert_fields(v, m.experts);
  adapter_fields(v, m.adapter);
  return v.take();
}

std::size_t longest_text(const base::Field& f) {
  if (f.name == "attention-file-blocks") return longest_file_blocks;
  if (f.name == "attention-window-tokens") return std::size_t{128} << 10;  // for as many layers as a model may have
  if (f.name == "attention-layout") return std::size_t{128} << 10;         // for as many layers as a model may have
  if (f.name == "attention-global-blocks") return std::size_t{128} << 10;  // for as many ranges as there may be
  return 8192;
}

bool is_name(const base::Field& f) { return f.name == "name" || f.name == "attention-file"; }

void follow(ModelConfig& m, const std::vector<base::Field>& fields) {
  const auto given = [&](const char* name) {
    return std::any_of(fields.begin(), fields.end(),
                       [&](const auto& f) { return f.name == name && f.source != base::from_default; });
  };
  if (!given("heads")) m.heads = usual_heads(m.hidden);
  if (!given("kv-heads")) m.kv_heads = m.heads;
  if (!given("lanes")) m.lanes = 0;
  if (m.encoder_layers > 0) {
    if (m.decoder_layers == 0) m.decoder_layers = given("layers") ? m.layers - m.encoder_layers : m.encoder_layers;
    if (!given("layers")) m.layers = m.encoder_layers + m.decoder_layers;
  }
  if (!given("ffn")) m.ffn = std::min<std::int64_t>(usual_ffn(m), 1 << 20);
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
    out.append(text, begin, end - begin + 1);  // with the space behind the word, if there is one
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
      "Keys that begin with `attention-`, `experts-`, `rotary-`, `encoder-` or `decoder-` may stand in tables of these "
      "names, without the "
      "beginning.\n\n"
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
                       in_column(f.legal.empty() ? "text" : f.legal, 45, 80), in_column(f.help, 6, 80));
  }
  return out +
         "\nHyphens and underscores are the same in keys and words. Keys that begin with\nattention-, experts-, "
         "rotary-, encoder- or decoder- may stand in tables of these\nnames: [experts] count = 8, top-k = 2, each a "
         "line.\n\nExample, a small Llama (save it as llama.toml, then\ntrain --model llama.toml ...):\n\n" +
         example;
}

}  // namespace trainyard::plan

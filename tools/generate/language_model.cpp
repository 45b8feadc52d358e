// Loads a checkpoint for generation, and runs the forward pass.
#include "tools/generate/language_model.h"

#include "libtrain/base/error.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/objective.h"

#include <algorithm>
#include <numeric>

namespace trainyard::generate {

namespace {

// What a pass needs that reads a whole text, or one token of each.
struct Shapes {
  plan::MicroShape whole, one;
};
Shapes shapes_of(const plan::ModelConfig& m, std::int64_t texts, int threads) {
  const auto longest = plan::longest_sequence(m);
  const auto tokens = texts == 1 || plan::has_file_layout(m) ? longest : 1;  // a file's layout has one length
  return {{{1, longest}, {base::DType::f32, threads}}, {{texts, tokens}, {base::DType::f32, threads}}};
}

std::int64_t activation_bytes(const plan::ModelConfig& m, const Shapes& s) {
  return std::max(plan::activation_bytes(m, s.whole, plan::Pass::evaluate),
                  plan::activation_bytes(m, s.one, plan::Pass::evaluate));
}

std::int64_t workspace_bytes(const plan::ModelConfig& m, const Shapes& s) {
  const auto lists = plan::attention_list_bytes(m, s.whole.sequence);
  return std::max({plan::workspace_bytes(m, s.whole, plan::Pass::evaluate),
                   lists + plan::workspace_bytes(m, s.one, plan::Pass::evaluate),
                   model::KvCache::scratch_bytes(m, s.one.batch)});
}

}  // namespace

int threads_for_one(const plan::ModelConfig& m, int threads) {
  std::int64_t layer = 0;  // bytes
  for (const auto& flat_group : plan::flat_groups(m))
    if (flat_group.part == plan::Part::layers) layer = std::max(layer, plan::layout(flat_group, 1).padded * 4);
  return static_cast<int>(std::clamp<std::int64_t>(layer >> 20, 1, threads));
}

plan::ModelConfig for_generation(const checkpoint::Reader& reader, std::int64_t room) {
  auto m = reader.state().model;
  if (plan::objective_of(m) == plan::Objective::masked)
    throw base::InputError(
        fmt::format("the model of {} is not causal (attention-causal off): it predicts hidden tokens, not the next one",
                    reader.path()),
        "train --evaluate measures how well it predicts them");
  if (plan::has_encoder(m))
    throw base::InputError(
        fmt::format("the model of {} has an encoder, and a text alone has no source to read", reader.path()),
        "train --evaluate measures how well it predicts targets; generate writes them");
  if (plan::has_experts(m)) m.experts.evaluation_capacity_factor = "none";
  // A shorter context takes less memory. A table of positions has a row for each, so it stays.
  if (room > 0 && !plan::has_position_table(m) && !plan::has_file_layout(m)) m.context = std::min(m.context, room);
  return m;
}

std::string find_checkpoint(const std::string& path) { return checkpoint::named_checkpoint(path); }

LanguageModel::LanguageModel(checkpoint::Reader& reader, int threads, WeightsAre weights, const Texts& texts)
    : config_(for_generation(reader, texts.room)), room_(plan::longest_sequence(config_)),
      weights_(weights == WeightsAre::kept ? std::make_unique<KeptWeights>(reader, config_, threads) : nullptr),
      streamed_(weights == WeightsAre::kept ? nullptr : std::make_unique<StreamedStore>(reader, config_)),
      decoder_(config_),
      activations_(tensor::Category::activations, activation_bytes(config_, shapes_of(config_, texts.count, threads))),
      workspace_(tensor::Category::workspace, workspace_bytes(config_, shapes_of(config_, texts.count, threads))),
      kept_(tensor::Category::activations, texts.count * model::KvCache::bytes(config_, base::DType::f32)),
      exec_(tensor::Exec::caller(&workspace_, threads)),
      one_exec_(tensor::Exec::caller(&workspace_, threads_for_one(config_, threads))), lists_(config_, room(), *exec_),
      saved_(activations_), logits_(base::size(texts.count * config_.stored_vocabulary())) {
  for (std::int64_t text = 0; text < texts.count; ++text) past_.emplace_back(config_, base::DType::f32, kept_);
}

LanguageModel::~LanguageModel() = default;
const plan::ModelConfig& LanguageModel::config() const { return config_; }

std::span<const float> LanguageModel::begin(std::span<const std::int32_t> tokens, std::int64_t text) {
  auto* past = &base::at(past_, text);
  past->length = 0;
  return pass(tokens, {&past, 1})[0];
}

std::vector<std::span<const float>> LanguageModel::append(std::span<const Next> next) {
  std::vector<std::int32_t> tokens;
  std::vector<model::KvCache*> past;
  for (const auto& n : next) tokens.push_back(n.token), past.push_back(&base::at(past_, n.text));
  return pass(tokens, past);
}

// All tokens of one text, or one token of each of several.
std::vector<std::span<const float>> LanguageModel::pass(std::span<const std::int32_t> tokens,
                                                        std::span<model::KvCache* const> past) {
  const auto texts = std::ssize(past), t = std::ssize(tokens) / texts;
  std::vector<std::int32_t> positions(tokens.size()), starts(tokens.size(), 0);
  std::vector<std::uint8_t> counted(tokens.size(), 1);
  for (std::int64_t s = 0; s < texts; ++s) {
    const auto length = past[base::size(s)]->length;
    TRAINYARD_ASSERT(t >= 1 && length + t <= room(), "{} tokens behind {} with room for {}", t, length, room());
    std::iota(positions.begin() + s * t, positions.begin() + (s + 1) * t, static_cast<std::int32_t>(length));
  }
  model::MicroBatch micro;
  micro.tokens = micro.targets = base::View::of(tokens.data(), {texts, t});  // targets are not used
  micro.positions = base::View::of(positions.data(), {texts, t});
  micro.document_start = base::View::of(starts.data(), {texts, t});
  micro.weights = base::View::of(counted.data(), {texts, t});
  micro.samples.assign(base::size(texts), 0);
  params::ParameterStore* store = weights_.get();
  if (streamed_) store = &streamed_->store(), streamed_->begin_pass();
  auto& exec = std::ssize(tokens) == 1 ? *one_exec_ : *exec_;
  model::Step step{exec, store, micro, base::DType::f32, 0, plan::Pass::evaluate, 0, 0, {}, past};
  step.lists = &lists_;
  const auto stored = config_.stored_vocabulary();
  decoder_.logits(step, saved_, t - 1, base::View::of(logits_.data(), {texts, stored}));
  if (streamed_) streamed_->end_pass();
  std::vector<std::span<const float>> logits;
  for (std::int64_t s = 0; s < texts; ++s) {
    past[base::size(s)]->length += t;
    logits.emplace_back(logits_.data() + s * stored, base::size(config_.vocabulary));
  }
  return logits;
}

}  // namespace trainyard::generate

// Loads a checkpoint for generation, and runs the forward pass.
#include "tools/generate/language_model.h"

#include "libtrain/base/error.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/objective.h"

#include <algorithm>
#include <numeric>

namespace trainyard::generate {

namespace {

plan::MicroShape largest(const plan::ModelConfig& m, int threads) {
  return {{1, plan::longest_sequence(m)}, {base::DType::f32, threads}};
}

int threads_for_one(const plan::ModelConfig& m, int threads) {
  std::int64_t layer = 0;  // bytes
  for (const auto& flat_group : plan::flat_groups(m))
    if (flat_group.part == plan::Part::layers) layer = std::max(layer, plan::layout(flat_group, 1).padded * 4);
  return static_cast<int>(std::clamp<std::int64_t>(layer >> 20, 1, threads));
}

}  // namespace

plan::ModelConfig for_generation(const checkpoint::Reader& reader) {
  auto m = reader.state().model;
  if (plan::objective_of(m) == plan::Objective::masked)
    throw base::InputError(
        fmt::format("the model of {} is not causal (attention-causal off): it predicts hidden tokens, not the next one",
                    reader.path()),
        "train --evaluate measures how well it predicts them");
  if (plan::has_experts(m)) m.experts.evaluation_capacity_factor = "none";
  return m;
}

std::string find_checkpoint(const std::string& path) { return checkpoint::named_checkpoint(path); }

LanguageModel::LanguageModel(checkpoint::Reader& reader, int threads, WeightsAre weights)
    : config_(for_generation(reader)), room_(plan::longest_sequence(config_)),
      weights_(weights == WeightsAre::kept ? std::make_unique<KeptWeights>(reader, config_, threads) : nullptr),
      streamed_(weights == WeightsAre::kept ? nullptr : std::make_unique<StreamedStore>(reader, config_)),
      decoder_(config_), activations_(tensor::Category::activations,
                                      plan::activation_bytes(config_, largest(config_, threads), plan::Pass::evaluate)),
      workspace_(tensor::Category::workspace,
                 std::max(plan::workspace_bytes(config_, largest(config_, threads), plan::Pass::evaluate),
                          model::KvCache::scratch_bytes(config_))),
      kept_(tensor::Category::activations, model::KvCache::bytes(config_, base::DType::f32)),
      past_(config_, base::DType::f32, kept_), exec_(tensor::Exec::caller(&workspace_, threads)),
      one_exec_(tensor::Exec::caller(&workspace_, threads_for_one(config_, threads))), lists_(config_, room(), *exec_),
      saved_(activations_), positions_(static_cast<std::size_t>(room())), starts_(positions_.size(), 0),
      counted_(positions_.size(), 1), logits_(static_cast<std::size_t>(config_.stored_vocabulary())) {
  std::iota(positions_.begin(), positions_.end(), 0);
}

LanguageModel::~LanguageModel() = default;
const plan::ModelConfig& LanguageModel::config() const { return config_; }

std::span<const float> LanguageModel::begin(std::span<const std::int32_t> tokens) {
  past_.length = 0;
  return pass(tokens);
}

std::span<const float> LanguageModel::append(std::int32_t token) { return pass({&token, 1}); }

std::span<const float> LanguageModel::pass(std::span<const std::int32_t> tokens) {
  const auto t = static_cast<std::int64_t>(tokens.size());
  TRAINYARD_ASSERT(t >= 1 && past_.length + t <= room(), "{} tokens behind {} with room for {}", t, past_.length,
                   room());
  model::MicroBatch micro;
  micro.tokens = micro.targets = base::View::of(tokens.data(), {1, t});  // targets are not used
  micro.positions = base::View::of(positions_.data() + past_.length, {1, t});
  micro.document_start = base::View::of(starts_.data(), {1, t});
  micro.weights = base::View::of(counted_.data(), {1, t});
  micro.samples = {0};
  params::ParameterStore* store = weights_.get();
  if (streamed_) store = &streamed_->store(), streamed_->begin_pass();
  model::Step step{
      t == 1 ? *one_exec_ : *exec_, store, micro, base::DType::f32, 0, plan::Pass::evaluate, 0, 0, {}, &past_};
  step.lists = &lists_;
  decoder_.logits(step, saved_, t - 1, base::View::of(logits_.data(), {1, config_.stored_vocabulary()}));
  if (streamed_) streamed_->end_pass();
  past_.length += t;
  return {logits_.data(), static_cast<std::size_t>(config_.vocabulary)};
}

}  // namespace trainyard::generate

// Passes over a source with the beginning of its target, and over single tokens of targets.
#include "tools/generate/pair_model.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"
#include "tools/generate/language_model.h"

#include <algorithm>
#include <numeric>

namespace trainyard::generate {

namespace {

constexpr std::int64_t first_tokens = 16;  // of a target that a pass reads with its source

// What a pass needs that reads a source, or one token of each text.
struct PairShapes {
  plan::MicroShape whole, one;
};
PairShapes pair_shapes(std::int64_t source, std::int64_t texts, int threads) {
  PairShapes s{{{1, first_tokens}, {base::DType::f32, threads}}, {{texts, 1}, {base::DType::f32, threads}}};
  s.whole.source = source, s.one.source = 1;
  return s;
}

std::int64_t pair_activation_bytes(const plan::ModelConfig& m, const PairShapes& s) {
  return std::max(plan::activation_bytes(m, s.whole, plan::Pass::evaluate),
                  plan::activation_bytes(m, s.one, plan::Pass::evaluate));
}

std::int64_t pair_workspace_bytes(const plan::ModelConfig& m, const PairShapes& s) {
  return std::max({plan::workspace_bytes(m, s.whole, plan::Pass::evaluate),
                   plan::workspace_bytes(m, s.one, plan::Pass::evaluate),
                   model::KvCache::scratch_bytes(m, s.one.batch)}) +
         plan::cached_attention_scratch_bytes(s.whole.source, m.heads, 4);
}

}  // namespace

plan::ModelConfig for_pairs(const checkpoint::Reader& reader) {
  auto m = reader.state().model;
  if (!plan::has_encoder(m))
    throw base::InputError(fmt::format("the model of {} has no encoder, which would read sources", reader.path()),
                           "a checkpoint of a model with encoder-layers");
  if (plan::has_experts(m)) m.experts.evaluation_capacity_factor = "none";
  return m;
}

PairModel::PairModel(checkpoint::Reader& reader, int threads, const Room& room)
    : config_(for_pairs(reader)), room_(room),
      source_room_(room.source_tokens > 0 ? std::min(room.source_tokens, config_.context) : config_.context),
      weights_(reader, config_, threads), decoder_(config_),
      activations_(tensor::Category::activations,
                   pair_activation_bytes(config_, pair_shapes(source_room_, room.sources * room.texts, threads))),
      workspace_(tensor::Category::workspace,
                 pair_workspace_bytes(config_, pair_shapes(source_room_, room.sources * room.texts, threads))),
      kept_(tensor::Category::activations,
            room.sources * (model::SourceCache::bytes(config_, base::DType::f32, source_room_) +
                            (room.texts > 1 ? 2 : 1) * room.texts * model::KvCache::bytes(config_, base::DType::f32))),
      exec_(tensor::Exec::caller(&workspace_, threads)),
      one_exec_(tensor::Exec::caller(&workspace_, threads_for_one(config_, threads))),
      lists_(config_, config_.context, *exec_), saved_(activations_),
      logits_(base::size(room.sources * room.texts * config_.stored_vocabulary())) {
  const auto texts = room.sources * room.texts, spare = room.texts > 1 ? texts : 0;
  for (std::int64_t s = 0; s < room.sources; ++s) sources_.emplace_back(config_, base::DType::f32, source_room_, kept_);
  for (std::int64_t t = 0; t < texts + spare; ++t) {
    texts_.emplace_back(config_, base::DType::f32, kept_);
    (t < texts ? place_ : spare_).push_back(t);
  }
}

std::span<const float> PairModel::begin(std::int64_t source, std::span<const std::int32_t> tokens,
                                        std::span<const std::int32_t> first) {
  const auto n = std::ssize(tokens);
  TRAINYARD_ASSERT(n >= 1 && n <= source_room_ && !first.empty() && std::ssize(first) <= first_tokens,
                   "a source of {} tokens with room for {}, and {} first tokens", n, source_room_, first.size());
  std::vector<std::int32_t> positions(tokens.size()), begins(tokens.size(), 0),
      ends(tokens.size(), static_cast<std::int32_t>(n));
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<std::uint8_t> counted(tokens.size(), 1);
  model::MicroBatch micro;
  micro.tokens = micro.targets = base::View::of(tokens.data(), {1, n});
  micro.positions = base::View::of(positions.data(), {1, n});
  micro.document_start = base::View::of(begins.data(), {1, n});
  micro.key_end = base::View::of(ends.data(), {1, n});
  micro.weights = base::View::of(counted.data(), {1, n});
  micro.samples = {0};
  auto* past = &text(source, 0);
  past->length = 0, past->source = &base::at(sources_, source);
  return pass(&micro, first, {&past, 1})[0];
}

std::vector<std::span<const float>> PairModel::append(std::span<const Next> next) {
  std::vector<std::int32_t> tokens;
  std::vector<model::KvCache*> past;
  for (const auto& n : next) tokens.push_back(n.token), past.push_back(&text(n.source, n.text));
  return pass(nullptr, tokens, past);
}

void PairModel::reorder(std::int64_t source, std::span<const std::int64_t> from) {
  const auto texts = std::ssize(from), begin = source * room_.texts;
  bool changes = false;
  for (std::int64_t i = 0; i < texts; ++i) changes = changes || base::at(from, i) != i;
  if (!changes) return;
  for (std::int64_t i = 0; i < texts; ++i)
    base::at(texts_, base::at(spare_, begin + i)).go_on_from(*exec_, text(source, base::at(from, i)));
  for (std::int64_t i = 0; i < texts; ++i) std::swap(base::at(spare_, begin + i), base::at(place_, begin + i));
}

// All first tokens of one text with its source, or one token of each of several texts.
std::vector<std::span<const float>> PairModel::pass(const model::MicroBatch* source,
                                                    std::span<const std::int32_t> tokens,
                                                    std::span<model::KvCache* const> past) {
  const auto texts = std::ssize(past), t = std::ssize(tokens) / texts;
  std::vector<std::int32_t> positions(tokens.size()), zeros(tokens.size(), 0), ends(tokens.size(), 0);
  std::vector<std::uint8_t> counted(tokens.size(), 1);
  for (std::int64_t s = 0; s < texts; ++s) {
    const auto length = past[base::size(s)]->length;
    TRAINYARD_ASSERT(length + t <= target_room(), "{} tokens behind {} with room for {}", t, length, target_room());
    std::iota(positions.begin() + s * t, positions.begin() + (s + 1) * t, static_cast<std::int32_t>(length));
  }
  model::MicroBatch micro;
  micro.tokens = micro.targets = base::View::of(tokens.data(), {texts, t});  // targets are not used
  micro.positions = base::View::of(positions.data(), {texts, t});
  micro.document_start = base::View::of(zeros.data(), {texts, t});
  micro.weights = base::View::of(counted.data(), {texts, t});
  micro.samples.assign(base::size(texts), 0);
  if (source != nullptr) {
    std::fill(ends.begin(), ends.end(), static_cast<std::int32_t>(source->sequence()));
    micro.source = source;
    micro.source_start = base::View::of(zeros.data(), {texts, t});
    micro.source_end = base::View::of(ends.data(), {texts, t});
  }
  auto& exec = texts == 1 && source == nullptr ? *one_exec_ : *exec_;
  model::Step step{exec, &weights_, micro, base::DType::f32, 0, plan::Pass::evaluate, 0, 0, {}, past};
  step.lists = &lists_;
  const auto stored = config_.stored_vocabulary();
  decoder_.logits(step, saved_, t - 1, base::View::of(logits_.data(), {texts, stored}));
  std::vector<std::span<const float>> logits;
  for (std::int64_t s = 0; s < texts; ++s) {
    past[base::size(s)]->length += t;
    logits.emplace_back(logits_.data() + s * stored, base::size(config_.vocabulary));
  }
  return logits;
}

}  // namespace trainyard::generate

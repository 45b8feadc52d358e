// Passes over batches of texts, and the softmax of the logits in front of each scored token.
#include "tools/generate/scorer.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/checkpoint/parts.h"
#include "libtrain/model/head_block.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/spec/file_layout.h"
#include "tools/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainyard::generate {

double Score::sum() const { return std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0); }

// Everything whose size follows from the texts of a pass.
struct Scorer::Memory {
  std::int64_t batch, length;
  tensor::Arena activations, workspace;
  std::unique_ptr<tensor::Exec> exec;
  model::AttentionLists lists;
  model::Saved saved;
  std::vector<float> logits;
  std::int64_t chunk;  // rows of logits that are made at a time

  Memory(const plan::ModelConfig& m, std::int64_t b, std::int64_t n, int threads)
      : Memory(m, plan::MicroShape{{b, n}, {base::DType::f32, threads}}) {}

 private:
  Memory(const plan::ModelConfig& m, const plan::MicroShape& shape)
      : batch(shape.batch), length(shape.sequence),
        activations(tensor::Category::activations, plan::activation_bytes(m, shape, plan::Pass::evaluate)),
        workspace(tensor::Category::workspace, plan::workspace_bytes(m, shape, plan::Pass::evaluate) +
                                                   plan::attention_list_bytes(m, shape.sequence)),
        exec(tensor::Exec::caller(&workspace, shape.threads)), lists(m, shape.sequence, *exec), saved(activations),
        chunk(std::min(shape.rows(), plan::head_chunk_tokens(base::DeviceKind::cpu))) {
    logits.resize(base::size(chunk * m.stored_vocabulary()));
  }
};

Scorer::Scorer(checkpoint::Reader& reader, int threads, std::int64_t batch, WeightsAre weights)
    : config_(for_generation(reader)), room_(plan::longest_sequence(config_)), batch_(batch), threads_(threads),
      kept_(weights == WeightsAre::kept ? std::make_unique<KeptWeights>(reader, config_, threads) : nullptr),
      streamed_(weights == WeightsAre::kept ? nullptr : std::make_unique<StreamedStore>(reader, config_)),
      decoder_(config_) {}

Scorer::~Scorer() = default;

std::vector<Score> Scorer::score(std::span<const ToScore> texts) {
  std::vector<Score> scores(texts.size());
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return texts[a].tokens.size() > texts[b].tokens.size(); });
  for (std::size_t at = 0; at < order.size(); at += base::size(batch_)) {
    std::vector<const ToScore*> of;
    std::vector<Score*> to;
    for (auto i = at; i < std::min(order.size(), at + base::size(batch_)); ++i)
      of.push_back(&texts[order[i]]), to.push_back(&scores[order[i]]);
    pass(of, to);
  }
  return scores;
}

// The longest text is the first. Shorter ones end with padding, which no scored token sees.
void Scorer::pass(std::span<const ToScore* const> texts, std::span<Score* const> scores) {
  const auto b = static_cast<std::int64_t>(texts.size()), n = static_cast<std::int64_t>(texts[0]->tokens.size()) - 1;
  TRAINYARD_ASSERT(n >= 1 && n <= room_, "{} tokens with room for {}", n, room_);
  if (!memory_ || memory_->batch < b || memory_->length < n) {
    memory_.reset();
    const auto length = plan::has_file_layout(config_) ? room_ : n;  // a file's layout has one length
    memory_ = std::make_unique<Memory>(config_, std::max(b, batch_), length, threads_);
  }
  auto& m = *memory_;
  std::vector<std::int32_t> tokens(base::size(b * n), 0), positions(tokens.size()), starts(tokens.size(), 0);
  std::vector<std::uint8_t> counted(tokens.size(), 1);
  struct Place {
    std::size_t text;
    std::int32_t token;
  };
  std::vector<std::int64_t> rows;
  std::vector<Place> places;
  for (std::size_t s = 0; s < texts.size(); ++s) {
    const auto& t = *texts[s];
    TRAINYARD_ASSERT(t.first >= 1 && t.first <= t.tokens.size(), "token {} of {}", t.first, t.tokens.size());
    const auto row = static_cast<std::int64_t>(s) * n;
    std::copy(t.tokens.begin(), t.tokens.end() - 1, tokens.begin() + row);
    std::iota(positions.begin() + row, positions.begin() + row + n, 0);
    for (auto i = t.first; i < t.tokens.size(); ++i)
      rows.push_back(row + static_cast<std::int64_t>(i) - 1), places.push_back({s, t.tokens[i]});
  }
  model::MicroBatch micro;
  micro.tokens = micro.targets = base::View::of(tokens.data(), {b, n});  // targets are not used
  micro.positions = base::View::of(positions.data(), {b, n});
  micro.document_start = base::View::of(starts.data(), {b, n});
  micro.weights = base::View::of(counted.data(), {b, n});
  micro.samples.assign(base::size(b), 0);
  params::ParameterStore* store = kept_.get();
  if (streamed_) store = &streamed_->store(), streamed_->begin_pass();
  model::Step step{*m.exec, store, micro, base::DType::f32, 0, plan::Pass::evaluate};
  step.lists = &m.lists;
  std::vector<double> found(rows.size());
  std::vector<char> best(rows.size());
  const auto stored = config_.stored_vocabulary();
  const auto seen = [&](std::int64_t first, std::int64_t count) {
    checkpoint::for_each_part(base::size(count), threads_, [&](std::size_t i, int) {
      const std::span<const float> logits(m.logits.data() + static_cast<std::int64_t>(i) * stored,
                                          base::size(config_.vocabulary));
      const auto at = base::size(first) + i;
      const auto token = base::size(places[at].token);
      found[at] = log_probability(logits, places[at].token);
      best[at] = *std::max_element(logits.begin(), logits.end()) == logits[token] ? 1 : 0;
    });
  };
  decoder_.logits(step, m.saved, model::LogitRows{rows, base::View::of(m.logits.data(), {m.chunk, stored}), seen});
  if (streamed_) streamed_->end_pass();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i]))
      throw base::CheckError("a logit is not finite", "inspect the checkpoint: its norms show which tensor went wrong");
    auto& score = *scores[places[i].text];
    score.log_probabilities.push_back(found[i]);
    score.likeliest += best[i];
  }
}

}  // namespace trainyard::generate

// All ranks agree on what is evaluated, then evaluate it in rotation.
#include "libtrain/engine/evaluate.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/comm/delayed.h"
#include "libtrain/data/text_bytes.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/evaluation_terms.h"
#include "libtrain/engine/evaluator.h"
#include "libtrain/engine/place.h"
#include "libtrain/engine/run_windows.h"
#include "libtrain/engine/watch.h"
#include "libtrain/plan/spec/objective.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numbers>
#include <optional>

namespace trainyard::engine {

namespace {

// Accumulation steps between two gathers of losses, for each pipeline stage. They decide how many losses a progress
// line knows, and how far one rank may be ahead of another. The stages fill and empty once between two gathers.
constexpr std::int64_t rounds_a_stretch = 8;

// Counts the text behind the targets of each micro-batch, on the host and from windows of its own.
class TextCounter {
 public:
  TextCounter(const std::string& folder, const data::SetIndex& index, data::WindowDataset& windows)
      : text_(folder, index), windows_(windows), i32_(4 * base::size(windows.sequence())),
        weights_(base::size(windows.sequence())) {}
  const std::string& why_not() const { return text_.why_not(); }
  // Of windows [first, end).
  data::TextBytes::Count count(std::int64_t first, std::int64_t end) {
    const auto T = windows_.sequence();
    const data::WindowPtrs window{i32_.data(), i32_.data() + T, i32_.data() + 2 * T, i32_.data() + 3 * T,
                                  weights_.data()};
    data::TextBytes::Count count;
    for (auto w = first; w < end; ++w) {
      windows_.fill(static_cast<std::uint64_t>(w), window);
      text_.add(window, T, count);
    }
    return count;
  }

 private:
  data::TextBytes text_;
  data::WindowDataset& windows_;
  std::vector<std::int32_t> i32_;
  std::vector<std::uint8_t> weights_;
};

Evaluation result_of(const EvaluateConfig& c, const EvaluationTerms& t, const MicroLoss& total) {
  if (total.targets == 0)
    throw nothing_counts(fmt::format("{} of {}", base::counted(t.sequences, "sequence"), base::one_line(t.run.data)),
                         counted_of(t.setup));
  if (!std::isfinite(total.mean()))
    throw base::CheckError(fmt::format("the loss of {} on {} is not finite: {}", t.checkpoint,
                                       base::one_line(t.run.data), base::number_text(total.mean())),
                           "inspect the checkpoint: its norms show which tensor went wrong");
  Evaluation e;
  e.checkpoint = t.checkpoint, e.step = t.state.step;
  e.data = t.run.data, e.split = c.split, e.dtype = base::name_of(t.run.dtype), e.document_mask = t.run.document_mask;
  e.answers_only = t.run.answers_only;
  e.objective = plan::name_of(plan::objective_of(t.state.model));
  if (t.setup.masking) e.mask_rate = t.setup.masking->rate, e.mask_words = t.run.mask_words == "on" ? "on" : "off";
  e.sequence = t.setup.plan.sequence, e.sequences = t.sequences;
  for (const auto tokens : tokens_of_shards(t.setup.sets.front(), *t.split)) e.split_tokens += tokens;
  e.tokens = static_cast<std::int64_t>(total.targets);
  e.bytes = static_cast<std::int64_t>(total.bytes), e.unmeasured = static_cast<std::int64_t>(total.unmeasured);
  e.loss = total.mean();
  return e;
}

void report_streaming(const std::string& checkpoint, const StreamedWeights& bytes, const World& world) {
  if (world.rank == 0)
    base::log_info("weights are streamed: {} of {} are read in the first accumulation step, {} in each later one",
                   base::size_text(bytes.first_step, base::Sizes::rounded), checkpoint,
                   base::size_text(bytes.later_step, base::Sizes::rounded));
}

// While it lives, the watchdog asks the evaluator what it is doing.
class WhatIsDone {
 public:
  WhatIsDone(comm::Watchdog* watchdog, const Evaluator& evaluator) : watchdog_(watchdog) {
    if (watchdog_ != nullptr) watchdog_->ask_what_is_done([&evaluator] { return evaluator.doing(); });
  }
  ~WhatIsDone() {
    if (watchdog_ != nullptr) watchdog_->ask_what_is_done({});
  }
  WhatIsDone(const WhatIsDone&) = delete;

 private:
  comm::Watchdog* watchdog_;
};

// Where an evaluation runs.
struct EvaluationPlace {
  World& world;
  comm::Watchdog* watchdog;
  base::Device device;
};

// The loss on one set. The ranks have agreed on its terms.
Evaluation evaluate_set(const EvaluateConfig& config, EvaluationTerms& t, const EvaluationPlace& there,
                        const EvaluateWatch& watch) {
  auto& world = there.world;
  auto* watchdog = there.watchdog;
  const auto device = there.device;
  auto& exec = *world.communication;
  if (device.kind == base::DeviceKind::cpu) require_same_instructions(t.setup.plan.dtype, world, exec);
  t.setup.step.device = device;
  on_every_rank(world, exec, [&] { require_layout(world, t.setup.plan); });
  if (t.set == 0)  // all sets have the same pipeline stages
    on_every_rank(world, exec, [&] { join_neighbours(world, t.setup.plan.virtual_stages, device); });
  watch_calls(watchdog, world, Calls::of_a_start);
  const auto shape = t.setup.plan.micro();
  const bool masked = t.setup.masking.has_value();

  std::optional<data::WindowDataset> windows, text_windows;
  std::optional<TextCounter> text;
  std::optional<Batches> batches;
  std::optional<Evaluator> evaluator;
  on_every_rank(world, exec, [&] {
    const auto& set = t.setup.sets.front();
    for (auto* each : {&windows, &text_windows})
      each->emplace(set.folder, t.setup.index, *t.split,
                    data::WindowDataset::Windows{.sequence = shape.sequence,
                                                 .mask = t.setup.mask,
                                                 .order = data::Order::as_stored,
                                                 .seed = 0,
                                                 .field = set.field,
                                                 .value = set.value,
                                                 .answers_only = t.run.answers_only});
    if (t.setup.masking) windows->hide(*t.setup.masking);
    if (!masked) text.emplace(set.folder, t.setup.index, *text_windows);
    batches.emplace(*windows, &*windows, t.setup.plan.batch(), world.reduction_position());
    evaluator.emplace(t.setup.plan, t.setup.step, world, *batches, residence(config));
  });
  evaluator->load(t.checkpoint);
  if (config.stream_weights) report_streaming(t.checkpoint, evaluator->streamed(), world);
  watch_calls(watchdog, world, Calls::of_steps);
  const WhatIsDone reported(watchdog, *evaluator);

  MicroLoss total;
  const auto report = [&](std::int64_t done) {
    if (world.rank == 0 && watch) watch(done, t.sequences, total.mean());
  };
  const auto micros = (t.sequences + shape.batch - 1) / shape.batch,
             stretch = rounds_a_stretch * world.topology.size(plan::Axes{plan::Axis::data, plan::Axis::pipe});
  for (std::int64_t first = 0; first < micros; first += stretch)
    or_fail(world, [&] {
      const auto end = std::min(micros, first + stretch);
      if (watchdog) watchdog->set_step(first / stretch + 1);
      const EvaluateMicros on_stage = [&](std::span<const std::int64_t> mine, std::span<MicroLoss> losses) {
        evaluator->evaluate(mine, losses, t.sequences, [&](std::size_t at) {
          const auto begin = mine[at] * shape.batch, behind = begin + shape.batch;
          if (evaluator->finds_losses() && masked) {
            losses[at].unmeasured = losses[at].targets;
          } else if (evaluator->finds_losses()) {
            const auto count = text->count(begin, std::min(t.sequences, behind));
            losses[at].bytes = static_cast<double>(count.bytes),
            losses[at].unmeasured = static_cast<double>(count.unmeasured);
          }
          if (mine[at] + 1 < end) report(behind);
        });
      };
      reduce_losses(world, evaluator->communication(), first, end, on_stage, total);
      report(std::min(t.sequences, end * shape.batch));
    });
  Evaluation result;
  on_every_rank(world, evaluator->communication(), [&] { result = result_of(config, t, total); });
  if (masked) result.unmeasured_why = "hidden tokens are predicted from both sides";
  else if (result.unmeasured > 0)
    result.unmeasured_why =
        text->why_not().empty() ? "the tokenizer has no token for a part of the text" : text->why_not();
  result.predicted = evaluator->memory().predicted();
  result.measured = evaluator->memory().measured();
  if (config.stream_weights) result.streamed = evaluator->streamed();
  return result;
}

}  // namespace

const std::set<std::string>& evaluation_settings() {
  static const auto names = [] {
    RunConfig config;
    std::set<std::string> of_evaluations;
    for (const auto& f : fields_of(config))
      if (f.has(base::FieldTrait::evaluation)) of_evaluations.insert(f.name);
    return of_evaluations;
  }();
  return names;
}

double Evaluation::perplexity() const { return std::exp(loss); }

double Evaluation::bits_per_byte() const {
  if (unmeasured > 0 || bytes == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss * static_cast<double>(tokens) / (std::numbers::ln2 * static_cast<double>(bytes));
}

std::vector<Evaluation> evaluate_sets(const EvaluateConfig& asked, World& world, const EvaluateWatch& watch,
                                      const std::function<void(const Evaluation&)>& found_one) {
  auto config = asked;
  const auto watchdog =
      watch_peers(world, *world.communication, config.run.hang_timeout, comm::end_job_on_hang({}, world.rank));
  require_same(shared_settings(config), world, *world.communication);
  const auto place = agree_on_device(config.run, world, *world.communication);
  if (place.device.kind == base::DeviceKind::cuda) move_to_gpu(config.run, world, place);
  if (config.run.collective_delay > 0)
    world.replace_groups([&](auto group) { return comm::delayed(std::move(group), config.run.collective_delay); });
  std::deque<EvaluationTerms> terms;  // which have pointers to their own parts
  for (std::size_t set = 0, sets = 1; set < sets; ++set) {
    auto& t = terms.emplace_back();
    t.set = set;
    agree_on_terms(t, config, world, *world.communication);
    config.checkpoint = t.checkpoint;  // a run may save a newer one meanwhile
    sets = t.sets;
  }
  std::vector<Evaluation> found;
  for (auto& t : terms) {
    found.push_back(evaluate_set(config, t, {world, watchdog.get(), place.device}, watch));
    if (world.rank == 0 && found_one) found_one(found.back());
  }
  return found;
}

Evaluation evaluate(const EvaluateConfig& config, World& world, const EvaluateWatch& watch) {
  auto found = evaluate_sets(config, world, watch);
  TRAINYARD_ASSERT(found.size() == 1, "{} sets, where one was expected", found.size());
  return std::move(found.front());
}

}  // namespace trainyard::engine

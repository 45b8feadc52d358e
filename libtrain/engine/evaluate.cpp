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
#include "libtrain/engine/set_windows.h"
#include "libtrain/engine/watch.h"
#include "libtrain/engine/window_buffer.h"
#include "libtrain/plan/spec/layer_model.h"
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
  TextCounter(const std::string& folder, const data::SetIndex& index, data::WindowSource& windows)
      : text_(folder, index), windows_(windows), buffer_(windows) {}
  const std::string& why_not() const { return text_.why_not(); }
  // Of windows [first, end).
  data::TextBytes::Count count(std::int64_t first, std::int64_t end) {
    data::TextBytes::Count count;
    for (auto w = first; w < end; ++w) {
      windows_.fill(static_cast<std::uint64_t>(w), buffer_.ptrs());
      text_.add(buffer_.ptrs(), windows_.sequence(), count);
    }
    return count;
  }

 private:
  data::TextBytes text_;
  data::WindowSource& windows_;
  WindowBuffer buffer_;
};

// Why the targets of a task are no running text; empty: they are.
const char* why_unmeasured(const RunSetup& setup) {
  if (setup.masking) return "hidden tokens are predicted from both sides";
  if (setup.sets.front().task == Task::spans) return "sentinels stand between the hidden spans";
  if (infills(setup.sets.front().task)) return "texts are predicted from what is left of them";
  return "";
}

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
  const auto task = t.setup.sets.front().task;
  e.objective = task == Task::windows ? plan::name_of(plan::objective_of(t.state.model)) : name_of(task);
  if (t.setup.masking) e.mask_rate = t.setup.masking->rate, e.mask_words = t.run.mask_words == "on" ? "on" : "off";
  if (corrupts(task)) e.mask_rate = mask_rate_of(t.run, task), e.mask_span = mask_span_of(t.run, task);
  e.sequence = t.setup.plan.sequence, e.sequences = t.sequences, e.source_sequence = t.setup.plan.source_sequence;
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
  const std::string unmeasured_why = why_unmeasured(t.setup);
  const bool measured = unmeasured_why.empty();

  std::optional<SetWindows> windows, text_windows;
  std::optional<TextCounter> text;
  std::optional<Batches> batches;
  std::optional<Evaluator> evaluator;
  on_every_rank(world, exec, [&] {
    const auto& set = t.setup.sets.front();
    for (auto* each : {&windows, &text_windows})
      each->emplace(set, *t.split, data::Order::as_stored, reading_of(t.setup));
    if (measured) text.emplace(set.folder, t.setup.index, text_windows->windows());
    batches.emplace(windows->windows(), &windows->windows(), t.setup.plan.batch(), world.reduction_position());
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
          if (evaluator->finds_losses() && !measured) {
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
  if (!measured) result.unmeasured_why = unmeasured_why;
  else if (result.unmeasured > 0)
    result.unmeasured_why =
        text->why_not().empty() ? "the tokenizer has no token for a part of the text" : text->why_not();
  result.predicted = evaluator->memory().predicted();
  result.measured = evaluator->memory().measured();
  if (config.stream_weights) result.streamed = evaluator->streamed();
  if (plan::has_experts(t.state.model)) result.gates = gate_metrics(t.state.model, evaluator->gate_records());
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

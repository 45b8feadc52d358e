// The windows of a run, compared with what the run asks for.
#include "libtrain/engine/run_windows.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/window_buffer.h"
#include "libtrain/plan/data_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainyard::engine {

namespace {

// Reads sequences, and says which have a target that counts.
class TargetFinder {
 public:
  explicit TargetFinder(data::WindowSource& windows) : windows_(windows), buffer_(windows) {}
  bool has_target(std::uint64_t ordinal) {
    windows_.fill(ordinal, buffer_.ptrs());
    return buffer_.has_target();
  }

 private:
  data::WindowSource& windows_;
  WindowBuffer buffer_;
};

// Reads at most `most` windows in their order, until one has a target that counts. That is the first, except in data
// that cannot teach. InputError if none of these has one; `what` is the name of the data.
void require_target(data::SampledWindows& windows, const std::string& what, std::uint64_t most, Counted counted) {
  TargetFinder finder(windows);
  for (std::uint64_t w = 0; w < std::min(most, windows.count()); ++w)
    if (finder.has_target(w)) return;
  throw nothing_counts(windows.count() > most ? fmt::format("the first {} windows of {}", most, what) : what, counted);
}

// InputError if the shards of a set hold no window.
void require_windows(const RunSet& set, std::int64_t tokens) {
  if (set.use.windows > 0) return;
  std::int64_t longest = 0;
  for (const auto shard : tokens_of_shards(set, set.index.train)) longest = std::max(longest, shard);
  throw base::InputError(
      fmt::format("{} holds no window of {} tokens: {} shard has {}", text_of(set), tokens + 1,
                  set.index.train.size() == 1 ? "its only" : "its largest", base::counted(longest, "token")),
      longest > 1 && set.task == Task::windows ? base::text("give more text, or at most $sequence {}", longest - 1)
                                               : "give more text");
}

data::SetsOfWindows sets_of(std::deque<SetWindows>& all) {
  data::SetsOfWindows sets;
  for (auto& set : all) sets.push_back(&set.windows());
  return sets;
}

// How a run that has read `samples` sequences has read a set of a mixture.
std::string reading_of_set(const RunSet& set, double share, std::uint64_t samples) {
  const auto epochs = static_cast<double>(samples) / static_cast<double>(std::max<std::int64_t>(1, set.use.windows));
  return fmt::format("\n  {}: {:.4g} % of the sequences; {} of {}, {} epochs", base::one_line(set.name), 100 * share,
                     base::count_text(static_cast<std::int64_t>(samples)),
                     base::counted(set.use.windows, set.task == Task::pairs ? "row" : "window"),
                     base::number_text(epochs));
}

// "data: 120 rows of 64 + 128 tokens (sources and targets), with 99.8 % of the training tokens"
std::string use_text(const RunSet& set, const SetReading& reading) {
  if (set.task != Task::pairs) return plan::data_use_text(set.use, tokens_of_text(set, reading));
  return plan::rows_text(set.use, reading.source_sequence, reading.sequence);
}

}  // namespace

RunWindows::RunWindows(const RunSetup& setup) {
  const auto reading = reading_of(setup);
  const int open = std::max(1, data::WindowDataset::most_open / static_cast<int>(setup.sets.size()));
  const bool all_count = counted_of(setup) == Counted::all && setup.mask == data::DocumentMask::off;
  std::vector<std::int64_t> counts;
  for (const auto& set : setup.sets) {
    if (set.task != Task::pairs) require_windows(set, tokens_of_text(set, reading));
    auto& training = training_.emplace_back(set, set.index.train, data::Order::keyed, reading, open).windows();
    if (!all_count) require_target(training, text_of(set), 1000, counted_of(setup));
    if (set.validation_sequences == 0) continue;
    auto& validation =
        validation_.emplace_back(set, set.index.validation, data::Order::as_stored, reading, open).windows();
    counts.push_back(set.validation_sequences);
    if (!all_count)
      require_target(validation, "the validation split of " + text_of(set), base::size(set.validation_sequences),
                     counted_of(setup));
  }
  mixed_.emplace(sets_of(training_), mixture_of(setup.sets, setup.config));
  if (!counts.empty()) validated_.emplace(sets_of(validation_), counts);
}

std::string RunWindows::few_targets_text(const RunSetup& setup, std::int64_t batch, std::int64_t samples) {
  const auto looked_at = std::min<std::int64_t>(200, samples);
  constexpr double seldom = 0.01;  // steps without a target
  const auto counted = counted_of(setup);
  if (counted == Counted::all) return {};
  TargetFinder finder(*mixed_);
  std::int64_t without = 0;
  for (std::int64_t i = 0; i < looked_at; ++i) without += finder.has_target(base::size(i)) ? 0 : 1;
  const auto share = static_cast<double>(without) / static_cast<double>(looked_at),
             steps = std::pow(share, static_cast<double>(batch));
  if (steps < seldom) return {};
  return base::text(
      "{} of the first {} sequences of this run have no {}, so about {} % of its steps of {} have none: such a step "
      "has no loss, and teaches nothing; a larger $global-batch or a longer $sequence has fewer of them",
      without, looked_at, counted == Counted::answers ? "answer" : "hidden token", std::llround(100 * steps),
      base::counted(batch, "sequence"));
}

Counted counted_of(const RunSetup& setup) {
  return setup.masking ? Counted::hidden : setup.config.answers_only ? Counted::answers : Counted::all;
}

base::InputError nothing_counts(const std::string& what, Counted counted) {
  if (counted == Counted::answers)
    return base::InputError(fmt::format("no target of {} counts: none is an answer", what),
                            base::text("give text with answers, or $answers-only off, where all tokens count"));
  if (counted == Counted::hidden)
    return base::InputError(
        fmt::format("no target of {} counts: all tokens are ends of documents, which are never hidden", what),
        "give text with words in it");
  return base::InputError(fmt::format("no target of {} counts: every one begins a document", what),
                          base::text("$document-mask off, or longer documents"));
}

std::string reading_text(const RunSetup& setup, std::int64_t steps, std::int64_t samples) {
  const auto reading = reading_of(setup);
  std::string text, of_sets;
  if (setup.sets.size() == 1) {
    const auto& set = setup.sets.front();
    text = use_text(set, reading);
    if (const auto epochs = plan::epochs_text(set.use, steps, samples); !epochs.empty()) text += "; " + epochs;
  } else {
    const auto mixture = mixture_of(setup.sets, setup.config);
    const auto counts = mixture.counts(base::size(samples));
    const auto tokens = base::count_text(setup.plan.sequence + (reading.source_sequence > 0 ? 0 : 1));
    text = fmt::format("data: {} sets, {}; in {}", setup.sets.size(),
                       reading.source_sequence > 0
                           ? fmt::format("rows of {} + {} tokens", base::count_text(reading.source_sequence), tokens)
                           : fmt::format("windows of {} tokens", tokens),
                       base::counted(steps, "step"));
    for (std::size_t k = 0; k < setup.sets.size(); ++k)
      of_sets += reading_of_set(setup.sets[k], mixture.share(static_cast<int>(k)), counts[k]);
  }
  if (setup.validation_sequences > 0)
    text += fmt::format("; a validation reads {}", base::counted(setup.validation_sequences, "sequence"));
  return text + of_sets;
}

}  // namespace trainyard::engine

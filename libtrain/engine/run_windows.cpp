// The windows of a run, compared with what the run asks for.
#include "libtrain/engine/run_windows.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/data_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainyard::engine {

namespace {

// Reads windows, and says which have a target that counts.
class TargetFinder {
 public:
  explicit TargetFinder(data::WindowSource& windows)
      : windows_(windows), i32_(4 * base::size(windows.sequence())), weights_(base::size(windows.sequence())) {}
  bool has_target(std::uint64_t ordinal) {
    const auto T = windows_.sequence();
    windows_.fill(ordinal, {i32_.data(), i32_.data() + T, i32_.data() + 2 * T, i32_.data() + 3 * T, weights_.data()});
    return std::any_of(weights_.begin(), weights_.end(), [](auto weight) { return weight != 0; });
  }

 private:
  data::WindowSource& windows_;
  std::vector<std::int32_t> i32_;
  std::vector<std::uint8_t> weights_;
};

// Reads at most `most` windows in their order, until one has a target that counts. That is the first, except in data
// that cannot teach. InputError if none of these has one; `what` is the name of the data.
void require_target(data::SampledWindows& windows, const std::string& what, std::uint64_t most, Counted counted) {
  TargetFinder finder(windows);
  for (std::uint64_t w = 0; w < std::min(most, windows.count()); ++w)
    if (finder.has_target(w)) return;
  throw nothing_counts(windows.count() > most ? fmt::format("the first {} windows of {}", most, what) : what, counted);
}

data::SetsOfWindows pointers_to(std::deque<data::WindowDataset>& windows) {
  data::SetsOfWindows sets;
  for (auto& set : windows) sets.push_back(&set);
  return sets;
}

// InputError if the shards of a set hold no window.
void require_windows(const RunSet& set, std::int64_t sequence) {
  if (data_use_of(set, sequence).windows > 0) return;
  std::int64_t longest = 0;
  for (const auto tokens : tokens_of_shards(set, set.index.train)) longest = std::max(longest, tokens);
  throw base::InputError(
      fmt::format("{} holds no window of {} tokens: {} shard has {}", text_of(set), sequence + 1,
                  set.index.train.size() == 1 ? "its only" : "its largest", base::counted(longest, "token")),
      longest > 1 ? base::text("give more text, or at most $sequence {}", longest - 1) : "give more text");
}

// How a run that has read `samples` sequences has read a set of a mixture.
std::string reading_of_set(const RunSet& set, const plan::DataUse& use, double share, std::uint64_t samples) {
  const auto epochs = static_cast<double>(samples) / static_cast<double>(std::max<std::int64_t>(1, use.windows));
  return fmt::format("\n  {}: {:.4g} % of the sequences; {} of {}, {} epochs", base::one_line(set.name), 100 * share,
                     base::count_text(static_cast<std::int64_t>(samples)), base::counted(use.windows, "window"),
                     base::number_text(epochs));
}

}  // namespace

RunWindows::RunWindows(const RunSetup& setup) {
  const auto of = [&](const RunSet& set, const std::vector<data::ShardEntry>& split, data::Order order,
                      std::deque<data::WindowDataset>& windows) {
    windows.emplace_back(set.folder, set.index, split,
                         data::WindowDataset::Windows{
                             .sequence = setup.plan.sequence,
                             .mask = setup.mask,
                             .order = order,
                             .seed = setup.config.seed,
                             .open = std::max(1, data::WindowDataset::most_open / static_cast<int>(setup.sets.size())),
                             .field = set.field,
                             .value = set.value,
                             .answers_only = setup.config.answers_only});
    if (setup.masking) windows.back().hide(*setup.masking);
  };
  const bool all_count = setup.mask == data::DocumentMask::off && !setup.masking && !setup.config.answers_only;
  std::vector<std::int64_t> counts;
  for (const auto& set : setup.sets) {
    require_windows(set, setup.plan.sequence);
    of(set, set.index.train, data::Order::keyed, training_);
    if (!all_count) require_target(training_.back(), text_of(set), 1000, counted_of(setup));
    if (set.validation_sequences == 0) continue;
    of(set, set.index.validation, data::Order::as_stored, validation_);
    counts.push_back(set.validation_sequences);
    if (!all_count)
      require_target(validation_.back(), "the validation split of " + text_of(set),
                     base::size(set.validation_sequences), counted_of(setup));
  }
  mixed_.emplace(pointers_to(training_), mixture_of(setup.sets, setup.config.seed));
  if (!counts.empty()) validated_.emplace(pointers_to(validation_), counts);
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
  const auto sequence = setup.plan.sequence;
  std::string text, of_sets;
  if (setup.sets.size() == 1) {
    const auto use = data_use_of(setup.sets.front(), sequence);
    text = plan::data_use_text(use, sequence);
    if (const auto epochs = plan::epochs_text(use, steps, samples); !epochs.empty()) text += "; " + epochs;
  } else {
    const auto mixture = mixture_of(setup.sets, setup.config.seed);
    const auto counts = mixture.counts(base::size(samples));
    text = fmt::format("data: {} sets, windows of {} tokens; in {}", setup.sets.size(), base::count_text(sequence + 1),
                       base::counted(steps, "step"));
    for (std::size_t k = 0; k < setup.sets.size(); ++k)
      of_sets += reading_of_set(setup.sets[k], data_use_of(setup.sets[k], sequence), mixture.share(static_cast<int>(k)),
                                counts[k]);
  }
  if (setup.validation_sequences > 0)
    text += fmt::format("; a validation reads {}", base::counted(setup.validation_sequences, "sequence"));
  return text + of_sets;
}

}  // namespace trainyard::engine

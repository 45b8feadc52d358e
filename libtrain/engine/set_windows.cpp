// Each task has its own source of sequences.
#include "libtrain/engine/set_windows.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/corrupted_windows.h"
#include "libtrain/data/pair_windows.h"
#include "libtrain/plan/data_use.h"

namespace trainyard::engine {

namespace {

data::WindowDataset::Windows text_windows_of(const RunSet& set, data::Order order, const SetReading& r, int open) {
  return {.sequence = r.sequence,
          .mask = r.mask,
          .order = order,
          .seed = r.seed,
          .open = open,
          .field = set.field,
          .value = set.value,
          .answers_only = r.answers_only};
}

data::RowOptions rows_of(const RunSet& set, data::Order order, const SetReading& r, int open) {
  return {.sequence = r.sequence,
          .source_sequence = r.source_sequence,
          .order = order,
          .seed = r.seed,
          .start = r.start,
          .open = open,
          .field = set.field,
          .value = set.value};
}

}  // namespace

std::int64_t tokens_of_text(const RunSet& set, const SetReading& r) {
  return corrupts(set.task) ? data::denoised_lengths(*r.denoising, r.sequence, r.source_sequence).tokens : r.sequence;
}

SetWindows::SetWindows(const RunSet& set, const std::vector<data::ShardEntry>& split, data::Order order,
                       const SetReading& r, int open) {
  if (set.task == Task::pairs) {
    windows_ = std::make_unique<data::PairWindows>(set.folder, set.index, split, rows_of(set, order, r, open));
  } else if (corrupts(set.task)) {
    windows_ = std::make_unique<data::CorruptedWindows>(set.folder, set.index, split, rows_of(set, order, r, open),
                                                        *r.denoising);
  } else {
    auto text =
        std::make_unique<data::WindowDataset>(set.folder, set.index, split, text_windows_of(set, order, r, open));
    if (r.masking) text->hide(*r.masking);
    windows_ = std::move(text);
  }
}

SplitUse use_of(const RunSet& set, const std::vector<data::ShardEntry>& split, const SetReading& reading) {
  const auto tokens = tokens_of_shards(set, split);
  if (set.task != Task::pairs) return {plan::data_use(tokens, tokens_of_text(set, reading))};
  SplitUse use;
  if (!has_split(set, split)) return use;
  const data::PairWindows rows(set.folder, set.index, split,
                               rows_of(set, data::Order::as_stored, reading, data::OpenShards::most_open));
  for (const auto n : tokens) use.tokens += n;
  use.windows = static_cast<std::int64_t>(rows.count());
  use.in_windows = rows.tokens().source + rows.tokens().target;
  use.pairs_left_out = rows.left_out();
  return use;
}

void take_uses(std::vector<RunSet>& sets, const SetReading& reading, bool validates) {
  for (auto& set : sets) {
    const auto use = use_of(set, set.index.train, reading);
    set.use = use, set.pairs_left_out = use.pairs_left_out;
    if (validates) set.validation_use = use_of(set, set.index.validation, reading);
  }
}

std::string left_out_text(const RunSet& set, const SetReading& r) {
  if (set.task != Task::pairs) return plan::left_out_text(set.use, tokens_of_text(set, r));
  if (set.pairs_left_out == 0) return {};
  return base::text("{} of {} longer than $source-sequence {} or $sequence {}, and left out",
                    base::counted(set.pairs_left_out, "pair"),
                    base::one_line(set.folder) + (set.pairs_left_out == 1 ? " is" : " are"), r.source_sequence,
                    r.sequence);
}

}  // namespace trainyard::engine

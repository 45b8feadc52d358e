// Fills what pairs leave free, moves targets behind, and writes positions and ranges.
#include "libtrain/data/pair_row.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"

#include <algorithm>

namespace trainyard::data {

PairRow::PairRow(const RowOptions& options, std::int32_t unused)
    : shape_{options.source_sequence, options.sequence}, start_(options.start), unused_(unused) {
  if (shape_.source < 1 || shape_.target < 1)
    throw base::UsageError(fmt::format("rows of {} source and {} target tokens: pairs have 1 or more of each",
                                       shape_.source, shape_.target),
                           base::text("positive numbers for $source-sequence and $sequence"));
}

WindowPtrs PairRow::whole(const WindowPtrs& out) {
  auto all = out;
  if (all.key_end == nullptr) {
    key_end_.resize(base::size(shape_.target));
    all.key_end = key_end_.data();
  }
  if (all.source.tokens != nullptr) return all;
  const auto S = shape_.source;
  source_.resize(base::size(4 * S)), seen_.resize(base::size(2 * shape_.target));
  auto* room = source_.data();
  all.source = {room, room + S, room + 2 * S, room + 3 * S, seen_.data(), seen_.data() + shape_.target};
  return all;
}

void PairRow::complete(std::span<const PairLength> pairs, const WindowPtrs& out) const {
  std::int64_t source = 0, target = 0;
  for (const auto& pair : pairs) source += pair.source, target += pair.target;
  const auto& [tokens, positions, begin, end, seen_begin, seen_end] = out.source;
  std::fill(tokens + source, tokens + shape_.source, unused_);
  std::fill(out.targets + target, out.targets + shape_.target, unused_);
  fill_pair_row(pairs, shape_,
                {.source_positions = positions,
                 .source_begin = begin,
                 .source_end = end,
                 .target_positions = out.positions,
                 .target_begin = out.document_start,
                 .target_end = out.key_end,
                 .memory_begin = seen_begin,
                 .memory_end = seen_end,
                 .weights = out.weights});
  shift_targets(pairs, shape_, start_, out.targets, out.tokens);
}

}  // namespace trainyard::data

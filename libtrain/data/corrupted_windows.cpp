// Reads a window, and hides a part of it.
#include "libtrain/data/corrupted_windows.h"

#include "libtrain/base/index.h"

#include <span>

namespace trainyard::data {

namespace {

WindowDataset::Windows windows_of(const RowOptions& rows, std::int64_t tokens) {
  return {.sequence = tokens,
          .mask = DocumentMask::off,
          .order = rows.order,
          .seed = rows.seed,
          .open = rows.open,
          .field = rows.field,
          .value = rows.value};
}

std::variant<SpanCorruption, TextInfiller> corrupter_of(const Denoising& rule) {
  if (const auto* infilling = std::get_if<TextInfilling>(&rule)) return TextInfiller(*infilling);
  return std::get<SpanCorruption>(rule);
}

}  // namespace

CorruptedWindows::CorruptedWindows(const std::string& folder, const SetIndex& index,
                                   const std::vector<ShardEntry>& split, const RowOptions& rows, const Denoising& rule)
    : order_(rows.order), seed_(rows.seed), row_(rows, index.end_of_document),
      lengths_(denoised_lengths(rule, rows.sequence, rows.source_sequence)),
      text_(folder, index, split, windows_of(rows, lengths_.tokens)), rule_(corrupter_of(rule)),
      window_(base::size(4 * lengths_.tokens)), weights_(base::size(lengths_.tokens)) {}

void CorruptedWindows::fill_as(std::uint64_t ordinal, std::uint64_t sample, const WindowPtrs& out) {
  const auto n = lengths_.tokens;
  auto* tokens = window_.data();
  text_.fill_as(ordinal, sample, {tokens, tokens + n, tokens + 2 * n, tokens + 3 * n, weights_.data()});
  const auto key =
      order_ == Order::keyed ? SampleKey::of_training(seed_, sample) : SampleKey::of_evaluation(ordinal % count());
  const std::span<const std::int32_t> text(tokens, base::size(n));
  const auto all = row_.whole(out);
  PairLength pair;
  if (const auto* infiller = std::get_if<TextInfiller>(&rule_)) {
    const auto made = infiller->fill(key, text, {all.source.tokens, all.targets});
    pair = {made.inputs, made.targets};
  } else {
    const auto made = corrupt_spans(std::get<SpanCorruption>(rule_), key, text, {all.source.tokens, all.targets});
    pair = {made.inputs, made.targets};
  }
  row_.complete({&pair, 1}, all);
}

}  // namespace trainyard::data

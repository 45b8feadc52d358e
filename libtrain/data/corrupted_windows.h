// CorruptedWindows: a split of a set of text as sources and targets by span corruption or text infilling.
#pragma once

#include "libtrain/data/denoising.h"
#include "libtrain/data/pair_row.h"
#include "libtrain/data/window_dataset.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace trainyard::data {

// Sequence s is the text of sample s of a WindowDataset, whose windows have DenoisedLengths::tokens tokens. Ends of
// documents in it are tokens as all others. In the keyed order the draws depend on seed and sample, so each epoch hides
// other tokens. As stored they depend on the window alone, so every reading of a set hides the same. Only one thread at
// a time may call fill.
class CorruptedWindows : public SampledWindows {
 public:
  // UsageError as denoised_lengths; InputError if no shard of the split holds a window.
  CorruptedWindows(const std::string& folder, const SetIndex& index, const std::vector<ShardEntry>& split,
                   const RowOptions& rows, const Denoising& rule);

  std::uint64_t count() const override { return text_.count(); }
  std::int64_t sequence() const override { return row_.shape().target; }
  std::int64_t source_sequence() const override { return row_.shape().source; }
  DocumentMask document_mask() const override { return DocumentMask::on; }
  bool hides() const override { return false; }
  const DenoisedLengths& lengths() const { return lengths_; }

  // A row with one pair; PairRow::complete does all but its tokens. All of its targets count. Without out.source it
  // fills the arrays of the target alone.
  void fill_as(std::uint64_t ordinal, std::uint64_t sample, const WindowPtrs& out) override;

 private:
  Order order_;
  std::uint64_t seed_;
  PairRow row_;
  DenoisedLengths lengths_;
  WindowDataset text_;
  std::variant<SpanCorruption, TextInfiller> rule_;
  std::vector<std::int32_t> window_;  // four arrays of a window
  std::vector<std::uint8_t> weights_;
};

}  // namespace trainyard::data

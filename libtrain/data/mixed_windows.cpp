// Finds the set of a sequence, and lets it fill the sequence.
#include "libtrain/data/mixed_windows.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <utility>

namespace trainyard::data {

MixedWindows::MixedWindows(std::deque<WindowDataset>& sets, Mixture mixture)
    : sets_(sets), mixture_(std::move(mixture)) {
  TRAINYARD_ASSERT(std::ssize(sets) == mixture_.sets(), "{} sets in a mixture of {}", sets.size(), mixture_.sets());
}

void MixedWindows::fill(std::uint64_t ordinal, const WindowPtrs& out) {
  const auto sample = mixture_.of(ordinal);
  base::at(sets_, sample.set).fill_as(sample.ordinal, ordinal, out);
}

ConsecutiveWindows::ConsecutiveWindows(std::deque<WindowDataset>& sets, std::vector<std::int64_t> counts)
    : sets_(sets), counts_(std::move(counts)) {
  TRAINYARD_ASSERT(sets.size() == counts_.size(), "{} sets, and {} counts", sets.size(), counts_.size());
}

void ConsecutiveWindows::fill(std::uint64_t ordinal, const WindowPtrs& out) {
  std::size_t set = 0;
  for (; set + 1 < counts_.size() && ordinal >= base::size(counts_[set]); ++set) ordinal -= base::size(counts_[set]);
  sets_[set].fill(ordinal, out);
}

}  // namespace trainyard::data

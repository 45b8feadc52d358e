// Finds the set of a sequence, and lets it fill the sequence.
#include "libtrain/data/mixed_windows.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <utility>

namespace trainyard::data {

namespace {

SetsOfWindows alike(SetsOfWindows sets, std::int64_t expected) {
  TRAINYARD_ASSERT(!sets.empty() && std::ssize(sets) == expected, "{} sets, of {}", sets.size(), expected);
  const auto& first = *sets.front();
  for (const auto* set : sets)
    TRAINYARD_ASSERT(set->sequence() == first.sequence() && set->source_sequence() == first.source_sequence() &&
                         set->document_mask() == first.document_mask() && set->hides() == first.hides(),
                     "sequences of {} and sources of {} beside {} and {}", set->sequence(), set->source_sequence(),
                     first.sequence(), first.source_sequence());
  return sets;
}

}  // namespace

MixedWindows::MixedWindows(SetsOfWindows sets, Mixture mixture)
    : sets_(alike(std::move(sets), mixture.sets())), mixture_(std::move(mixture)) {}

void MixedWindows::fill(std::uint64_t ordinal, const WindowPtrs& out) {
  const auto sample = mixture_.of(ordinal);
  base::at(sets_, sample.set)->fill_as(sample.ordinal, ordinal, out);
}

ConsecutiveWindows::ConsecutiveWindows(SetsOfWindows sets, std::vector<std::int64_t> counts)
    : sets_(alike(std::move(sets), std::ssize(counts))), counts_(std::move(counts)) {}

void ConsecutiveWindows::fill(std::uint64_t ordinal, const WindowPtrs& out) {
  std::size_t set = 0;
  for (; set + 1 < counts_.size() && ordinal >= base::size(counts_[set]); ++set) ordinal -= base::size(counts_[set]);
  sets_[set]->fill(ordinal, out);
}

}  // namespace trainyard::data

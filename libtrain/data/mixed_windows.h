// Sequences from several shard sets: mixed for training, one set after another for a validation.
#pragma once

#include "libtrain/data/mixture.h"
#include "libtrain/data/window_source.h"

#include <cstdint>
#include <vector>

namespace trainyard::data {

// The sets of one reader. All have sequences and sources of one length, and one document mask; they outlive it.
using SetsOfWindows = std::vector<SampledWindows*>;

// Sequence i is the sample of the set that the mixture says. A set's samples are in its own keyed order, with its own
// epochs. What is hidden and dropped depends on i.
class MixedWindows : public WindowSource {
 public:
  MixedWindows(SetsOfWindows sets, Mixture mixture);
  std::int64_t sequence() const override { return sets_.front()->sequence(); }
  std::int64_t source_sequence() const override { return sets_.front()->source_sequence(); }
  DocumentMask document_mask() const override { return sets_.front()->document_mask(); }
  bool hides() const override { return sets_.front()->hides(); }
  void fill(std::uint64_t ordinal, const WindowPtrs& out) override;
  const Mixture& mixture() const { return mixture_; }

 private:
  SetsOfWindows sets_;
  Mixture mixture_;
};

// The first counts[0] windows of set 0, then the first counts[1] of set 1, and so on; then the last set's go on.
class ConsecutiveWindows : public WindowSource {
 public:
  ConsecutiveWindows(SetsOfWindows sets, std::vector<std::int64_t> counts);
  std::int64_t sequence() const override { return sets_.front()->sequence(); }
  std::int64_t source_sequence() const override { return sets_.front()->source_sequence(); }
  DocumentMask document_mask() const override { return sets_.front()->document_mask(); }
  bool hides() const override { return sets_.front()->hides(); }
  void fill(std::uint64_t ordinal, const WindowPtrs& out) override;

 private:
  SetsOfWindows sets_;
  std::vector<std::int64_t> counts_;
};

}  // namespace trainyard::data

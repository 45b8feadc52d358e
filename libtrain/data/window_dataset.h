// WindowDataset: a split of a shard set as windows of T + 1 tokens, in a keyed order without a stored index (decision
// 10).
#pragma once

#include "libtrain/data/masking.h"
#include "libtrain/data/open_shards.h"
#include "libtrain/data/window_source.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::data {

// Window w of a shard covers tokens [w T, w T + T]. Consecutive windows share one token, and no window spans two
// shards. Sample ordinal s is window permutation(s mod count) of epoch s / count, keyed by (seed, epoch). Only one
// thread at a time may call fill. UsageError for a sequence below 1; InputError if no shard of the split holds a
// window.
class WindowDataset : public SampledWindows {
 public:
  static constexpr int most_open = OpenShards::most_open;
  // `open`: the most shard files that are open at a time, however many there are.
  struct Windows {
    std::int64_t sequence;
    DocumentMask mask;
    Order order;
    std::uint64_t seed;  // of the keyed order, and of what fill() hides in it
    int open = most_open;
    std::string field = {}, value = {};  // only documents with this value of the field; empty: all
    bool answers_only = false;           // targets that are no answers have weight 0
  };
  WindowDataset(const std::string& folder, const SetIndex& index, const std::vector<ShardEntry>& split,
                const Windows& w);

  std::uint64_t count() const override { return first_window_.back(); }
  std::int64_t sequence() const override { return sequence_; }
  DocumentMask document_mask() const override { return mask_; }

  // From now on fill() hides tokens (masking.h). In the keyed order the choice depends on seed and ordinal, so each
  // epoch hides other tokens. As stored it depends on the window alone, so every reading of a set hides the same.
  void hide(Masking masking) { masking_ = std::move(masking); }
  bool hides() const override { return masking_.has_value(); }

  // With the mask off: positions are 0 .. T-1, document_start 0, weights 1. With the mask on:
  // - positions restart at each document;
  // - document_start is the index in the window where the token's document begins;
  // - the target that begins the next document has weight 0.
  // key_end, if wanted, is the index after the last token of its document in the window; with the mask off it is T.
  // Where tokens are hidden, mask_tokens sets targets and weights.
  void fill_as(std::uint64_t ordinal, std::uint64_t sample, const WindowPtrs& out) override;

 private:
  void leave_answers(std::span<const AnswerSpan> answers, std::int64_t first, const WindowPtrs& out) const;
  void fill_documents(std::span<const std::uint64_t> documents, std::int64_t first, const WindowPtrs& out) const;

  std::int64_t sequence_;
  DocumentMask mask_;
  Order order_;
  std::uint64_t seed_;
  bool answers_only_;
  OpenShards shards_;
  std::vector<std::uint64_t> first_window_{0};  // first window of each shard; the last entry is the total
  std::vector<std::int32_t> buffer_;
  std::optional<Masking> masking_;
};

}  // namespace trainyard::data

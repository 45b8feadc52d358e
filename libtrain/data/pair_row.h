// PairRow: the arrays of one row of pairs, as a model with an encoder reads them. RowOptions: which rows a set gives.
#pragma once

#include "libtrain/data/open_shards.h"
#include "libtrain/data/pair_packing.h"
#include "libtrain/data/window_source.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

struct RowOptions {
  std::int64_t sequence, source_sequence;  // tokens of a row: of its targets, and of its sources
  Order order;
  std::uint64_t seed;                  // of the keyed order, and of what is hidden in it
  std::int32_t start = 0;              // begins the decoder inputs of each pair
  int open = OpenShards::most_open;    // the most shard files that are open at a time
  std::string field = {}, value = {};  // only documents with this value of the field; empty: all
};

class PairRow {
 public:
  // `unused` is the token of places that no pair has. UsageError for a row without tokens.
  PairRow(const RowOptions& options, std::int32_t unused);
  const RowShape& shape() const { return shape_; }

  // The same arrays, with room of this object for all that are not wanted.
  WindowPtrs whole(const WindowPtrs& out);
  // Completes a row. On entry, out.source.tokens has the sources of these pairs, and out.targets their targets, one
  // after another. `out` is what whole() gave. On return:
  // - places behind the last pair have the unused token in out.source.tokens and out.targets, and weight 0;
  // - out.tokens are the decoder inputs (shift_targets);
  // - positions count in each source and in each target; document_start and key_end are a target's begin and end;
  // - source.begin and source.end are a source's begin and end, and seen_begin and seen_end the same of the source that
  //   belongs to a target's pair (fill_pair_row).
  void complete(std::span<const PairLength> pairs, const WindowPtrs& out) const;

 private:
  RowShape shape_;
  std::int32_t start_, unused_;
  std::vector<std::int32_t> key_end_, source_, seen_;
};

}  // namespace trainyard::data

// PairWindows: a split of a set of pairs as packed rows of sources and targets, in a keyed order.
#pragma once

#include "libtrain/data/open_shards.h"
#include "libtrain/data/pair_row.h"
#include "libtrain/data/window_source.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

// The pairs of a shard are packed into rows by pack_pairs, so a row has pairs of one shard, and every pair is in one
// row. Pairs that are longer than a row on a side are left out and counted. Rows depend on lengths and shape alone.
// Sample ordinal s is row permutation(s mod count) of epoch s / count, keyed by (seed, epoch), as of a WindowDataset.
// Each epoch has the same rows in another order.
// Reads all lengths when it is made. Memory: 4 bytes for a pair and 8 for a row, beside 24 for a pair in ShardReader;
// while it is made, about 100 bytes for a pair of the largest shard. Only one thread at a time may call fill.
class PairWindows : public SampledWindows {
 public:
  // UsageError for a row without tokens. InputError if the set is none of pairs, if a document is no pair, or if no
  // pair of the split fits a row.
  PairWindows(const std::string& folder, const SetIndex& index, const std::vector<ShardEntry>& split,
              const RowOptions& rows);

  std::uint64_t count() const override { return first_row_.back(); }
  std::int64_t sequence() const override { return row_.shape().target; }
  std::int64_t source_sequence() const override { return row_.shape().source; }
  DocumentMask document_mask() const override { return DocumentMask::on; }
  bool hides() const override { return false; }

  std::int64_t pairs() const { return std::ssize(pairs_); }  // of an epoch
  std::int64_t left_out() const { return left_out_; }        // pairs that fit no row
  PairLength tokens() const { return tokens_; }              // of an epoch: the lengths of all its pairs together

  // A row from its beginning on has sources and targets, as stored, of its pairs in their order; PairRow::complete does
  // the rest. Without out.source it fills the arrays of the target alone.
  void fill_as(std::uint64_t ordinal, std::uint64_t sample, const WindowPtrs& out) override;

 private:
  void pack(const ShardReader& shard);

  Order order_;
  std::uint64_t seed_;
  OpenShards shards_;
  PairRow row_;
  std::vector<std::uint32_t> pairs_;         // of all rows, by their numbers in their shard
  std::vector<std::int64_t> first_pair_{0};  // in pairs_, of each row; the last entry is their number
  std::vector<std::uint64_t> first_row_{0};  // of each shard; the last entry is their number
  std::int64_t left_out_ = 0;
  PairLength tokens_;
  std::vector<PairLength> lengths_;  // of the row that is filled
};

}  // namespace trainyard::data

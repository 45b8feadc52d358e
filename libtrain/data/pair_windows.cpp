// Packs the pairs of each shard, and reads those of a row.
#include "libtrain/data/pair_windows.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/random.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/shard_pairs.h"

#include <algorithm>
#include <limits>

namespace trainyard::data {

namespace {

const SetIndex& checked_pairs(const std::string& folder, const SetIndex& index) {
  if (!index.pairs)
    throw base::InputError(
        fmt::format("{}: the index does not say that its documents are pairs of a source and a target",
                    base::one_line(folder)),
        "make it with shard-data --pairs");
  return index;
}

}  // namespace

PairWindows::PairWindows(const std::string& folder, const SetIndex& index, const std::vector<ShardEntry>& split,
                         const RowOptions& rows)
    : order_(rows.order), seed_(rows.seed),
      shards_(folder, checked_pairs(folder, index), split, rows.open, {rows.field, rows.value}),
      row_(rows, index.end_of_document) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    pack(shards_[i]);
    first_row_.push_back(base::size(std::ssize(first_pair_) - 1));
  }
  pairs_.shrink_to_fit(), first_pair_.shrink_to_fit();
  if (count() > 0) return;
  const auto& shape = row_.shape();
  if (left_out_ == 0)
    throw base::InputError(fmt::format("{}: {} of the split, and no pair in them", base::one_line(folder),
                                       base::counted(std::ssize(split), "shard")),
                           "give more pairs");
  throw base::InputError(
      fmt::format("{}: none of {} fits a row of {} source and {} target tokens", base::one_line(folder),
                  base::counted(left_out_, "pair"), shape.source, shape.target),
      base::text("a longer $source-sequence or $sequence: pairs are never cut"));
}

void PairWindows::pack(const ShardReader& shard) {
  const auto& shape = row_.shape();
  auto lengths = pair_lengths(shard);
  if (std::ssize(lengths) > std::numeric_limits<std::uint32_t>::max())
    throw base::InputError(fmt::format("shard {} has {} pairs, and at most {} are read", shard.path(), lengths.size(),
                                       std::numeric_limits<std::uint32_t>::max()),
                           "smaller shards");
  // Lengths and numbers of the pairs that fit.
  std::vector<std::uint32_t> numbers;
  std::size_t fit = 0;
  for (std::size_t p = 0; p < lengths.size(); ++p) {
    const auto length = lengths[p];
    if (length.source > shape.source || length.target > shape.target) continue;
    lengths[fit++] = length;
    numbers.push_back(static_cast<std::uint32_t>(p));
    tokens_.source += length.source, tokens_.target += length.target;
  }
  left_out_ += std::ssize(lengths) - static_cast<std::int64_t>(fit);
  lengths.resize(fit);
  const auto rows = pack_pairs(lengths, shape);
  const auto before = std::ssize(pairs_);
  for (const auto p : rows.pairs) pairs_.push_back(base::at(numbers, p));
  for (std::size_t r = 1; r < rows.first.size(); ++r) first_pair_.push_back(before + rows.first[r]);
}

void PairWindows::fill_as(std::uint64_t ordinal, std::uint64_t, const WindowPtrs& out) {
  auto row = ordinal % count();
  if (order_ == Order::keyed) row = base::Permutation(count(), seed_, ordinal / count())(row);
  const auto shard = std::upper_bound(first_row_.begin(), first_row_.end(), row) - first_row_.begin() - 1;
  auto& reader = shards_.to_read(base::size(shard));
  const auto all = row_.whole(out);
  auto *source = all.source.tokens, *target = all.targets;
  lengths_.clear();
  for (auto i = first_pair_[row]; i < first_pair_[row + 1]; ++i) {
    const auto pair = std::int64_t{base::at(pairs_, i)};
    const auto length = pair_length(reader, pair);
    read_pair(reader, pair, length, source, target);
    source += length.source, target += length.target;
    lengths_.push_back(length);
  }
  row_.complete(lengths_, all);
}

}  // namespace trainyard::data

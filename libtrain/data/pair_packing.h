// Pair packing: several pairs of a source and a target in one row of each, with the ranges that attention needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::data {

// Tokens of a pair, both above 0.
struct PairLength {
  std::int64_t source = 0, target = 0;
  bool operator==(const PairLength&) const = default;
};

// Rows of pairs. A row has the pairs pairs[first[r]] to pairs[first[r + 1] - 1].
struct PairRows {
  std::vector<std::int64_t> pairs, first{0};
  std::int64_t count() const { return std::ssize(first) - 1; }
  std::span<const std::int64_t> row(std::int64_t r) const;
  bool operator==(const PairRows&) const = default;
};

// The room of a row: tokens of its sources together, and of its targets.
struct RowShape {
  std::int64_t source = 0, target = 0;
};

// Packs pairs into rows; every pair is in one row, whole. Pairs are taken from the largest to the smallest, of equals
// the first. The size of a pair is the sum of the shares that its sides take of a row. Each pair goes to the open row
// with the least room on the scarce side that holds it, of several to the one with the least room on the other side, of
// several to the one opened first. The scarce side is the one of which all pairs together fill more rows. Rows are in
// the order of the first pair that they have, and their pairs in order, so the result depends on lengths and shape
// alone. Time: n log n. Memory: about 100 bytes for a pair, and 64 for a token of the scarce side of a row. InputError
// for a pair that is longer than a row or has an empty side.
PairRows pack_pairs(std::span<const PairLength> lengths, const RowShape& shape);

// The least number of rows that any packing could have.
std::int64_t least_rows(std::span<const PairLength> lengths, const RowShape& shape);

// The arrays of one row to fill: each has RowShape::source or ::target elements.
struct PairRowPtrs {
  std::int32_t *source_positions, *source_begin, *source_end;  // of each source token: its place in its source, and
                                                               // where its source begins and ends in the row
  std::int32_t *target_positions, *target_begin, *target_end;  // of each target token, likewise
  std::int32_t *memory_begin, *memory_end;  // of each target token: where its pair's source begins and ends in the row
  std::uint8_t* weights;                    // of each target token: 1; behind the last pair 0
};

// Fills the arrays for a row with pairs of these lengths, from the row's beginning on. A place behind the last pair is
// a segment of its own, at position 0: attention there sees one token, of the source the row's last. So no query is
// without a key.
void fill_pair_row(std::span<const PairLength> pairs, const RowShape& shape, const PairRowPtrs& out);

// Decoder inputs of a row, from its targets: each pair's targets moved behind by one place, with `start` in the first.
// Behind the last pair all are `start`. Both have RowShape::target elements, and are apart.
void shift_targets(std::span<const PairLength> pairs, const RowShape& shape, std::int32_t start,
                   const std::int32_t* targets, std::int32_t* inputs);

}  // namespace trainyard::data

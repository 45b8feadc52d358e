// TileList: a block layout as attention kernels walk it: tiles of 64 queries by 64 keys, and which parts of each exist.
#pragma once

#include "libtrain/plan/spec/attention_tile.h"
#include "libtrain/plan/spec/block_layout.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// For each tile of queries, of each head: the tiles of keys that any of its queries sees, ascending. Bit 4 r + c of
// `parts`: queries [16 r, 16 r + 16) of the tile see keys [16 c, 16 c + 16), except what the kernel masks element by
// element (causal, document).
struct TileList {
  std::int64_t tiles = 0;            // along the sequence
  std::int64_t heads = 1;            // 1: the same for all heads
  std::vector<std::int32_t> begin;   // [heads * tiles + 1]
  std::vector<std::int32_t> other;   // tile numbers
  std::vector<std::uint16_t> parts;  // of each listed tile
  bool operator==(const TileList&) const = default;
};

TileList tiles_of(const BlockLayout& layout);
// The same list by keys: for each tile of keys the tiles of queries that see any of its keys, ascending. In `parts`, r
// still counts queries.
TileList by_keys(const TileList& list);

}  // namespace trainyard::plan

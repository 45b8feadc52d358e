// The pairs of a shard: where they lie, how long their sides are, and their tokens.
#pragma once

#include "libtrain/data/pair_packing.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/data/shard_set.h"

#include <cstdint>
#include <vector>

namespace trainyard::data {

// The lengths of the pairs of a shard, whose set has SetIndex::pairs, in order. Pair p begins at documents()[p] with
// its source and the source's end; its target follows, which is answer p, and has an end, too. InputError where a
// document is no pair. Also after ShardReader::keep_only, of the pairs that are kept.
std::vector<PairLength> pair_lengths(const ShardReader& shard);

// The length of one pair of a shard whose pairs pair_lengths found.
PairLength pair_length(const ShardReader& shard, std::int64_t pair);

// Reads the pair of that number into `source` and `target`, which have the room that its length says.
void read_pair(ShardReader& shard, std::int64_t pair, const PairLength& length, std::int32_t* source,
               std::int32_t* target);

// InputError where a source or a target does not end with the end of document.
void verify_pairs(ShardReader& shard, const SetIndex& index);

}  // namespace trainyard::data

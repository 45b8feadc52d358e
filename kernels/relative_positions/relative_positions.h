// The bias of relative positions: from a table of buckets to every distance of a key from a query, and back (Raffel et
// al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", section 2.1).
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/exec.h"

namespace trainyard::kernels {

// The distances are those of `keys` keys from `queries` queries, 1 - queries to keys - 1 (AttentionShape::bias). A
// distance of n places has the last bucket whose border is not above n. Later keys have buckets of their own, which
// follow those of the other keys, if the buckets are bidirectional; otherwise they count as 0 places away.
struct RelativePositions {
  base::ConstView borders;  // i32 [n], ascending, the first is 0 (plan::RelativeBuckets::borders)
  bool bidirectional = false;
  std::int64_t queries = 1, keys = 1;
};

// bias[h][distance + queries - 1] = table[bucket of distance][h]. table: [buckets, heads] in T, a rank's columns, with
// a pitch; buckets is n, or 2n if bidirectional. bias: [heads, queries + keys - 1] in G, the dtype of statistics. No
// scratch.
void relative_positions_expand(tensor::Exec& exec, const RelativePositions& positions, base::ConstView table,
                               base::View bias);

// d_table[bucket][h] = the sum of d_bias[h] over the distances of the bucket, in ascending order; 0 for a bucket of no
// distance. add: each sum is added to d_table. Both are in G. No scratch.
enum class FoldInto { overwrite, add };
void relative_positions_fold(tensor::Exec& exec, const RelativePositions& positions, base::ConstView d_bias,
                             base::View d_table, FoldInto into);

}  // namespace trainyard::kernels

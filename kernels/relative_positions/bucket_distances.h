// The distances of a bucket of relative positions, the same on every device. In an unnamed namespace, so that each
// compiled variant has its own copy.
#pragma once

#include "kernels/relative_positions/relative_positions_args.h"
#include "libtrain/base/anywhere.h"

namespace trainyard::kernels {
namespace {

// Columns [first, end) of a bias, which are neighbouring distances; empty if first >= end.
struct BucketColumns {
  std::int64_t first, end;
};
TRAINYARD_ANYWHERE inline BucketColumns columns_of(const PositionsArgs& a, std::int64_t bucket) {
  const bool later = bucket >= a.side, last = bucket % a.side == a.side - 1;
  const std::int64_t border = a.borders[bucket % a.side], most = a.queries + a.keys;  // above every distance
  const std::int64_t next = last ? most : a.borders[bucket % a.side + 1];
  std::int64_t first = later ? (border > 1 ? border : 1) : 1 - next, end = later ? next : 1 - border;
  if (!a.bidirectional && border == 0 && next > 0) end = a.keys;  // later keys count as 0 places away
  if (first < 1 - a.queries) first = 1 - a.queries;
  if (end > a.keys) end = a.keys;
  return {first + a.queries - 1, end + a.queries - 1};
}

}  // namespace
}  // namespace trainyard::kernels

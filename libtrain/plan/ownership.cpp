// Who counts what, by coordinates.
#include "libtrain/plan/ownership.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

bool counts(const Unit& unit, const Parameter& parameter, const Topology& topology, int rank) {
  for (const auto& [axis, size] : topology.axes()) {
    const bool holds_other_parts =
        axis == Axis::pipe || unit.group.has(axis) || (parameter.cut && parameter.cut->axis == axis);
    if (!holds_other_parts && topology.coordinate(rank, axis) != 0) return false;
  }
  return true;
}

std::int64_t place_in_group(const Topology& topology, int rank, Axes group) {
  const auto peers = topology.peers(rank, group);
  return std::find(peers.begin(), peers.end(), rank) - peers.begin();
}

}  // namespace

std::vector<PieceRange> counted_ranges(const Unit& unit, const UnitLayout& layout, const Topology& topology, int rank) {
  const auto begin = place_in_group(topology, rank, unit.group) * layout.piece, end = begin + layout.piece;
  std::vector<PieceRange> out;
  bool all = true, joins = false;
  for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
    const bool counted = counts(unit, unit.parameters[p], topology, rank);
    all = all && counted;
    const auto from = std::max(begin, layout.offsets[p]), to = std::min(end, layout.end(p));
    if (from >= to) continue;
    if (counted && joins) out.back().end = to - begin;
    else if (counted) out.push_back({from - begin, to - begin});
    joins = counted;
  }
  if (all) return {{0, layout.piece}};
  return out;
}

}  // namespace trainyard::plan

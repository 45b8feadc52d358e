// Who counts what, by coordinates.
#include "libtrain/plan/ownership.h"

#include "libtrain/plan/held.h"

namespace trainyard::plan {

std::vector<PieceRange> counted_ranges(const Unit& unit, const UnitLayout& layout, const Topology& topology, int rank) {
  bool all = true;
  for (const auto& parameter : unit.parameters) all = all && is_first_holder(unit, parameter, topology, rank);
  if (all) return {{0, layout.piece}};
  const auto begin = place_in_group(topology, rank, unit.group) * layout.piece;
  std::vector<PieceRange> out;
  bool joins = false;
  for (const auto& held : held_ranges(layout, begin, begin + layout.piece)) {
    const bool counted = is_first_holder(unit, unit.parameters[held.parameter], topology, rank);
    if (counted && joins) out.back().end = held.at + held.count;
    else if (counted) out.push_back({held.at, held.at + held.count});
    joins = counted;
  }
  return out;
}

}  // namespace trainyard::plan

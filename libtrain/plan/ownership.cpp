// Who counts what, by coordinates.
#include "libtrain/plan/ownership.h"

#include "libtrain/plan/held.h"

namespace trainyard::plan {

namespace {

template <class Counts> std::vector<PieceRange> ranges_that(const Counts& counts, const Unit& unit,
                                                            const UnitLayout& layout, const Topology& topology,
                                                            int rank) {
  bool all = true;
  for (const auto& parameter : unit.parameters) all = all && counts(parameter);
  if (all) return {{0, layout.piece}};
  const auto begin = place_in_group(topology, rank, unit.group) * layout.piece;
  std::vector<PieceRange> out;
  bool joins = false;
  for (const auto& held : held_ranges(layout, begin, begin + layout.piece)) {
    const bool counted = counts(unit.parameters[held.parameter]);
    if (counted && joins) out.back().end = held.at + held.count;
    else if (counted) out.push_back({held.at, held.at + held.count});
    joins = counted;
  }
  return out;
}

}  // namespace

std::vector<PieceRange> counted_ranges(const Unit& unit, const UnitLayout& layout, const Topology& topology, int rank) {
  return ranges_that([&](const Parameter& p) { return is_first_holder(unit, p, topology, rank); }, unit, layout,
                     topology, rank);
}

std::vector<PieceRange> normed_ranges(const Unit& unit, const UnitLayout& layout, const Topology& topology, int rank) {
  return ranges_that(
      [&](const Parameter& p) {
        return p.update.kind == Update::Kind::adamw && is_first_holder(unit, p, topology, rank);
      },
      unit, layout, topology, rank);
}

}  // namespace trainyard::plan

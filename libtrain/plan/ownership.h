// Ownership: what a rank counts of a unit's gradients where the whole world counts every logical parameter once.
#pragma once

#include "libtrain/plan/topology.h"
#include "libtrain/plan/unit.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Elements [begin, end) of a rank's piece of a unit.
struct PieceRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const PieceRange&) const = default;
};

// The ranks of a unit's group hold different pieces of it, and those along the axis of a parameter's cut different
// parts of the parameter. Along every other axis but pipe, whose stages have units of their own, ranks hold the same:
// the first of them counts. Ranges ascend; a piece that is counted whole is one range, with the gaps and the padding,
// where gradients are zero.
std::vector<PieceRange> counted_ranges(const Unit& unit, const UnitLayout& layout, const Topology& topology, int rank);

}  // namespace trainyard::plan

// Which elements of logical parameters are in a rank's shard of a flat group, and which rank holds an element.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/flat_group.h"
#include "libtrain/plan/grid/topology.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trainyard::plan {

// The index of a rank in its group along `axes`. A rank has the shard of that index.
int place_in_group(const Topology& topology, int rank, Axes axes);

// Whether the rank is the first of the ranks that hold the same elements of a parameter; it counts and saves them.
// Ranks hold the same elements along all axes but these: the flat group's group; the axis of the sharded dim; pipe,
// whose stages have flat groups of their own; and the axes of other experts (FlatGroup::others).
bool is_first_holder(const FlatGroup& flat_group, const Parameter& parameter, const Topology& topology, int rank);

// Elements [first, first + count), flat, of the part of a parameter that a rank holds.
struct HeldRange {
  std::size_t parameter;
  std::int64_t at;  // where the first element lies, counted from `begin`
  std::int64_t first, count;
};
// What lies in elements [begin, end) of a flat group, in ascending order. Between the ranges are gaps and padding.
std::vector<HeldRange> held_ranges(const FlatLayout& layout, std::int64_t begin, std::int64_t end);

// Consecutive elements, both in the flat part that a rank holds and in the flat logical parameter.
struct HeldRun {
  std::int64_t held, logical, count;
};

// Calls f(HeldRun) for elements [first, first + count), ascending, of the part of a parameter that a rank holds.
// Elements of stored rows beyond the logical rows have no logical element. They come last and are skipped.
template <class F> void for_each_held_run(const Parameter& parameter, const HeldPart& part, std::int64_t first,
                                          std::int64_t count, F&& f) {
  const auto dim = base::size(parameter.sharded ? parameter.sharded->dim : 0);
  std::int64_t inner = 1;  // stored and logical indices are equal, because only rows are added
  for (auto i = dim + 1; i < parameter.stored.size(); ++i) inner *= parameter.stored[i];
  const auto held_row = part.extent[dim] * inner, row = parameter.stored[dim] * inner, start = part.start[dim] * inner,
             logical = parameter.count();
  for (const auto end = first + count; first < end;) {
    const auto at = first / held_row * row + start + first % held_row;
    const auto n = std::min(std::min(end, (first / held_row + 1) * held_row) - first, logical - at);
    if (n < 1) return;
    f(HeldRun{first, at, n});
    first += n;
  }
}

// Calls f(part, HeldRun) for elements [first, first + count) of the flat logical parameter, ascending. `parts` ranks
// share the sharded dim; `part`, counted from 0, is the one that holds the elements.
template <class F>
void for_each_holder(const Parameter& parameter, int parts, std::int64_t first, std::int64_t count, F&& f) {
  const auto dim = base::size(parameter.sharded ? parameter.sharded->dim : 0);
  std::int64_t row = 1;
  for (auto i = dim; i < parameter.stored.size(); ++i) row *= parameter.stored[i];
  const auto held_row = parameter.sharded ? row / parts : row;
  for (const auto end = first + count; first < end;) {
    const auto in_row = first % row, part = in_row / held_row;
    const auto n = std::min(end - first, (part + 1) * held_row - in_row);
    f(static_cast<int>(part), HeldRun{first / row * held_row + in_row % held_row, first, n});
    first += n;
  }
}

}  // namespace trainyard::plan

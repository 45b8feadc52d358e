// Held: which elements of logical parameters are in a rank's shard of a flat group, and who holds an element.
#pragma once

#include "libtrain/plan/topology.h"
#include "libtrain/plan/flat_group.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trainyard::plan {

// Which of the ranks of its group along `axes` a rank is: whose shard of a flat group of that group it has.
int place_in_group(const Topology& topology, int rank, Axes axes);

// Along every axis but those of the flat group's group, that of the parameter's cut, pipe, whose stages have flat
// groups of their own, and those along which experts are others (FlatGroup::others), ranks hold the same elements of a
// parameter: the first of them counts and saves these.
bool is_first_holder(const FlatGroup& flat_group, const Parameter& parameter, const Topology& topology, int rank);

// Elements [first, first + count) of what a rank holds of a parameter, flat.
struct HeldRange {
  std::size_t parameter;
  std::int64_t at;  // of the first of them, from `begin`
  std::int64_t first, count;
};
// What lies in elements [begin, end) of a flat group, in ascending order; between them are gaps and padding.
std::vector<HeldRange> held_ranges(const FlatLayout& layout, std::int64_t begin, std::int64_t end);

// Elements one after the other in what a rank holds of a parameter, flat, and in the flat logical parameter.
struct HeldRun {
  std::int64_t held, logical, count;
};

// Calls f(HeldRun) for elements [first, first + count) of what a rank holds of a parameter, ascending. Those that have
// no logical element, of stored rows beyond the logical ones, are passed over: they are the last.
template <class F> void for_each_held_run(const Parameter& parameter, const HeldPart& part, std::int64_t first,
                                          std::int64_t count, F&& f) {
  const auto dim = static_cast<std::size_t>(parameter.sharded ? parameter.sharded->dim : 0);
  std::int64_t inner = 1;  // the stored index is the logical one because only rows are added
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

// Calls f(part, HeldRun) for elements [first, first + count) of the flat logical parameter, ascending, where `parts`
// ranks share the dim that is cut: `part` of them, counted from 0, holds these.
template <class F>
void for_each_holder(const Parameter& parameter, int parts, std::int64_t first, std::int64_t count, F&& f) {
  const auto dim = static_cast<std::size_t>(parameter.sharded ? parameter.sharded->dim : 0);
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

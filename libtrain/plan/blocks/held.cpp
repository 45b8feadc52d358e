// Indices of ranks in groups, and ranges of flat groups.
#include "libtrain/plan/blocks/held.h"

namespace trainyard::plan {

int place_in_group(const Topology& topology, int rank, Axes axes) { return topology.coordinate(rank, axes); }

bool is_first_holder(const FlatGroup& flat_group, const Parameter& parameter, const Topology& topology, int rank) {
  for (const auto& finest : topology.finest_axes()) {
    const auto axis = finest.axis;
    const bool holds_other_parts = axis == Axis::pipe || includes(flat_group.others, axis) ||
                                   includes(flat_group.group, axis) ||
                                   (parameter.sharded && includes({parameter.sharded->axis}, axis));
    if (!holds_other_parts && topology.coordinate(rank, axis) != 0) return false;
  }
  return true;
}

std::vector<HeldRange> held_ranges(const FlatLayout& layout, std::int64_t begin, std::int64_t end) {
  std::vector<HeldRange> out;
  for (std::size_t p = 0; p < layout.offsets.size(); ++p) {
    const auto from = std::max(begin, layout.offsets[p]), to = std::min(end, layout.end(p));
    if (from < to) out.push_back({p, from - begin, from - layout.offsets[p], to - from});
  }
  return out;
}

}  // namespace trainyard::plan

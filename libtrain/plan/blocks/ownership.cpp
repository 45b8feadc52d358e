// Which rank counts which ranges, from coordinates.
#include "libtrain/plan/blocks/ownership.h"

#include "libtrain/plan/blocks/held.h"

namespace trainyard::plan {

namespace {

template <class Counts> std::vector<ShardRange> ranges_that(const Counts& counts, const FlatGroup& flat_group,
                                                            const FlatLayout& layout, const Topology& topology,
                                                            int rank) {
  bool all = true;
  for (const auto& parameter : flat_group.parameters) all = all && counts(parameter);
  if (all) return {{0, layout.shard}};
  const auto begin = place_in_group(topology, rank, flat_group.group) * layout.shard;
  std::vector<ShardRange> out;
  bool joins = false;
  for (const auto& held : held_ranges(layout, begin, begin + layout.shard)) {
    const bool counted = counts(flat_group.parameters[held.parameter]);
    if (counted && joins) out.back().end = held.at + held.count;
    else if (counted) out.push_back({held.at, held.at + held.count});
    joins = counted;
  }
  return out;
}

}  // namespace

std::vector<ShardRange> counted_ranges(const FlatGroup& flat_group, const FlatLayout& layout, const Topology& topology,
                                       int rank) {
  return ranges_that([&](const Parameter& p) { return is_first_holder(flat_group, p, topology, rank); }, flat_group,
                     layout, topology, rank);
}

std::vector<ShardRange> normed_ranges(const FlatGroup& flat_group, const FlatLayout& layout, const Topology& topology,
                                      int rank) {
  return ranges_that(
      [&](const Parameter& p) {
        return p.update.kind == Update::Kind::optimizer && is_first_holder(flat_group, p, topology, rank);
      },
      flat_group, layout, topology, rank);
}

}  // namespace trainyard::plan

// Tests that over all ranks of any topology every element of every logical parameter counts once, whichever ranks hold
// copies of it.
#include "libtrain/plan/blocks/ownership.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

Parameter parameter(const char* name, std::int64_t count, std::optional<ShardedDim> sharded = {}) {
  return {name, {count}, {count}, {}, true, sharded};
}

// How often the ranks that hold one part of the sharded parameters count each element of the flat group.
std::vector<int> counts(const FlatGroup& flat_group, const Topology& topology, Axis cut_axis, int part) {
  const auto flat = layout(flat_group, topology.size(flat_group.group));
  std::vector<int> out(static_cast<std::size_t>(flat.padded), 0);
  for (int rank = 0; rank < topology.world(); ++rank) {
    if (topology.coordinate(rank, cut_axis) != part) continue;
    const auto peers = topology.peers(rank, flat_group.group);
    const auto shard = (std::find(peers.begin(), peers.end(), rank) - peers.begin()) * flat.shard;
    for (const auto& range : counted_ranges(flat_group, flat, topology, rank))
      for (auto i = range.begin; i < range.end; ++i) ++out[static_cast<std::size_t>(shard + i)];
  }
  return out;
}

}  // namespace

TEST(Ownership, EveryElementOnceAndReplicasByTheFirst) {
  const FlatGroup flat_group{"u",
                             Part::layers,
                             {Axis::data},
                             {parameter("u.a", 300), parameter("u.b", 70, ShardedDim{0, Axis::tensor}),
                              parameter("u.c", 90, ShardedDim{0, Axis::tensor}), parameter("u.d", 5)}};
  const Topology topology({{Axis::data, 3}, {Axis::context, 2}, {Axis::tensor, 2}});
  const auto flat = layout(flat_group, 3);
  for (int part : {0, 1}) {
    const auto seen = counts(flat_group, topology, Axis::tensor, part);
    for (std::size_t p = 0; p < flat_group.parameters.size(); ++p) {
      const bool counted =
          part == 0 ||
          flat_group.parameters[p].sharded.has_value();  // a parameter that is not sharded is the same on both parts
      for (auto i = flat.offsets[p]; i < flat.offsets[p] + flat_group.parameters[p].count(); ++i)
        ASSERT_EQ(seen[static_cast<std::size_t>(i)], counted ? 1 : 0)
            << flat_group.parameters[p].name << " element " << i << " of part " << part;
    }
  }
}

TEST(Ownership, AShardThatIsCountedWholeIsOneRange) {
  const FlatGroup flat_group{"u", Part::layers, {Axis::data}, {parameter("u.a", 17), parameter("u.b", 3)}};
  const auto flat = layout(flat_group, 2);
  const Topology data({{Axis::data, 2}});
  for (int rank : {0, 1})
    EXPECT_EQ(counted_ranges(flat_group, flat, data, rank), (std::vector<ShardRange>{{0, flat.shard}}));
  EXPECT_EQ(counted_ranges(flat_group, layout(flat_group, 1), Topology(), 0).size(), 1u);
}

// Each pipeline stage has its own flat groups. Of replicas along other axes, the first one counts.
TEST(Ownership, StagesAndExperts) {
  const FlatGroup flat_group{
      "u", Part::layers, {Axis::expert_data}, {parameter("u.a", 100, ShardedDim{0, Axis::expert})}};
  const Topology topology({{Axis::pipe, 2}, {Axis::expert_data, 2}, {Axis::expert, 2}, {Axis::tensor, 2}});
  const auto flat = layout(flat_group, 2);
  for (int rank = 0; rank < topology.world(); ++rank)
    EXPECT_EQ(counted_ranges(flat_group, flat, topology, rank).size(),
              topology.coordinate(rank, Axis::tensor) == 0 ? 1u : 0u)
        << rank;
}

}  // namespace trainyard::plan

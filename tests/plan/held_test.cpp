// Tests what ranks hold of a parameter, element by element. Every logical element is held by one part, at one place,
// and both directions agree. Stored rows beyond the logical ones have no element.
#include "libtrain/plan/blocks/held.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace trainyard::plan {

namespace {

// Finds the held index of each logical element by counting through the stored shape: (part, held) -> logical.
std::map<std::pair<int, std::int64_t>, std::int64_t> counted_through(const Parameter& p, int parts) {
  std::map<std::pair<int, std::int64_t>, std::int64_t> out;
  std::vector<std::int64_t> next(static_cast<std::size_t>(parts), 0);
  const auto cols = p.stored.size() > 1 ? p.stored[1] : 1;
  for (std::int64_t r = 0; r < p.stored[0]; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto at = !p.sharded ? 0 : p.sharded->dim == 0 ? r / (p.stored[0] / parts) : c / (cols / parts);
      const auto held = next[static_cast<std::size_t>(at)]++;
      if (r < p.shape[0]) out[{static_cast<int>(at), held}] = r * cols + c;
    }
  return out;
}

void expect_both_ways(const Parameter& p, int parts) {
  const Topology topology({{Axis::data, 3}, {Axis::tensor, parts}});
  const auto expected = counted_through(p, parts);
  for (const std::int64_t step : {1, 3, 7, 1000}) {
    std::map<std::pair<int, std::int64_t>, std::int64_t> held, holders;
    for (int rank = 0; rank < topology.world(); ++rank) {
      const auto part = held_part(p, topology, rank);
      std::int64_t count = 1;
      for (const auto n : part.extent) count *= n;
      const auto at = p.sharded ? topology.coordinate(rank, Axis::tensor) : 0;
      for (std::int64_t first = 0; first < count; first += step)
        for_each_held_run(p, part, first, std::min(step, count - first), [&](const HeldRun& run) {
          for (std::int64_t i = 0; i < run.count; ++i) held[{at, run.held + i}] = run.logical + i;
        });
    }
    EXPECT_EQ(held, expected) << p.name << " over " << parts << " by " << step;
    for (std::int64_t first = 0; first < p.count(); first += step)
      for_each_holder(p, parts, first, std::min(step, p.count() - first), [&](int at, const HeldRun& run) {
        for (std::int64_t i = 0; i < run.count; ++i) holders[{at, run.held + i}] = run.logical + i;
      });
    EXPECT_EQ(holders, expected) << p.name << " over " << parts << " by " << step;
  }
}

}  // namespace

TEST(Held, EveryLogicalElementHasOnePlace) {
  for (const int parts : {1, 2, 4}) {
    expect_both_ways({"rows", {8, 5}, {8, 5}, {}, true, ShardedDim{0, Axis::tensor}}, parts);
    expect_both_ways({"columns", {5, 8}, {5, 8}, {}, true, ShardedDim{1, Axis::tensor}}, parts);
    expect_both_ways({"bias", {12}, {12}, {}, true, ShardedDim{0, Axis::tensor}}, parts);
    expect_both_ways({"table", {5, 3}, {16, 3}, {}, true, ShardedDim{0, Axis::tensor}}, parts);
    expect_both_ways({"whole", {6, 7}, {6, 7}, {}, true, {}}, parts);
  }
}

TEST(Held, PlacesInAGroupAreThoseOfItsRanksAscending) {
  const Topology topology({{Axis::pipe, 2}, {Axis::data, 3}, {Axis::context, 2}, {Axis::tensor, 2}});
  for (const auto axes : {Axes{Axis::data}, Axes{Axis::tensor}, Axes{Axis::data, Axis::tensor},
                          Axes{Axis::data, Axis::context, Axis::tensor}, Axes{}, Axes{Axis::expert}})
    for (int rank = 0; rank < topology.world(); ++rank) {
      const auto peers = topology.peers(rank, axes);
      const auto place = static_cast<std::size_t>(place_in_group(topology, rank, axes));
      ASSERT_LT(place, peers.size());
      EXPECT_EQ(peers[place], rank) << name_of(axes);
    }
}

// Ranges of a flat group consist of the ranges of its parameters, whatever lies between parameters.
TEST(Held, RangesLeaveGapsOut) {
  const auto parameter = [](const char* name, std::int64_t n) { return Parameter{name, {n}, {n}, {}, true, {}}; };
  const FlatGroup flat_group{
      "u", Part::layers, {Axis::data}, {parameter("u.a", 17), parameter("u.b", 5), parameter("u.c", 64)}};
  const auto flat = layout(flat_group, 2);
  const auto found = held_ranges(flat, 10, 60);
  ASSERT_EQ(found.size(), 3u);
  const std::vector<std::vector<std::int64_t>> expected{{0, 0, 10, 7}, {1, 22, 0, 5}, {2, 38, 0, 12}};
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ((std::vector<std::int64_t>{static_cast<std::int64_t>(found[i].parameter), found[i].at, found[i].first,
                                         found[i].count}),
              expected[i]);
  EXPECT_TRUE(held_ranges(flat, 112, 128).empty());
}

}  // namespace trainyard::plan

// Tests the numbering of ranks: strides, order of axes, who has losses, the order of gradients, names of groups.
#include "libtrain/base/error.h"
#include "libtrain/plan/grid/call_group.h"
#include "libtrain/plan/grid/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace trainyard::plan {
namespace {

// Ranks by their coordinates, counted by hand: rank = ((p * 3 + d) * 2 + c) * 4 + t.
TEST(Grid, StridesAreTheRanksInsideAnAxis) {
  const Topology grid({{Axis::pipe, 2}, {Axis::data, 3}, {Axis::context, 2}, {Axis::tensor, 4}});
  EXPECT_EQ(grid.stride(Axis::tensor), 1);
  EXPECT_EQ(grid.stride(Axis::context), 4);
  EXPECT_EQ(grid.stride(Axis::data), 8);
  EXPECT_EQ(grid.stride(Axis::pipe), 24);
  for (int rank = 0; rank + 8 < 24; ++rank)
    EXPECT_EQ(grid.coordinate(rank + 8, Axis::data), grid.coordinate(rank, Axis::data) + 1) << rank;
  const auto experts = Topology({{Axis::data, 6}, {Axis::tensor, 2}}).with_experts(3);
  EXPECT_EQ(experts.stride(Axis::data), 2);
  EXPECT_EQ(experts.stride(Axis::expert), 2);
  EXPECT_EQ(experts.stride(Axis::expert_data), 6);
}

TEST(Grid, NestsInOneOrder) {
  EXPECT_TRUE(replicas_of(24, 4, 2).nests({Axis::pipe, Axis::data, Axis::tensor}));
  EXPECT_TRUE(Topology().nests({Axis::pipe, Axis::data, Axis::tensor}));
  EXPECT_TRUE(Topology({{Axis::tensor, 2}, {Axis::data, 1}}).nests({Axis::pipe, Axis::data, Axis::tensor}));
  EXPECT_FALSE(Topology({{Axis::tensor, 2}, {Axis::data, 2}}).nests({Axis::pipe, Axis::data, Axis::tensor}));
  const Topology context({{Axis::data, 2}, {Axis::context, 2}});
  EXPECT_FALSE(context.nests({Axis::pipe, Axis::data, Axis::tensor}));
  EXPECT_TRUE(context.nests({Axis::data, Axis::context}));
}

// Of each position in the reduction order: a rank of the last stage, with the position, and the first of its copies.
TEST(Grid, RowsWithLossesAreOfTheLastStage) {
  for (const auto& grid : {replicas_of(48, 2, 3, 4), replicas_of(48, 2, 3), replicas_of(6, 1), replicas_of(8, 4, 2)}) {
    const int world = grid.world(), last = grid.size(Axis::pipe) - 1, stage = world / (last + 1);
    for (const int gathered : {world, stage}) {
      const auto rows = grid.rows_with_losses(gathered);
      ASSERT_EQ(rows.ranks, grid.size(Axis::data));
      for (int position = 0; position < rows.ranks; ++position) {
        const int rank = world - gathered + static_cast<int>(rows.row(position));
        EXPECT_EQ(grid.coordinate(rank, Axis::pipe), last);
        EXPECT_EQ(grid.coordinate(rank, Axis::tensor), 0);
        EXPECT_EQ(grid.reduction_position(rank), position);
      }
    }
    EXPECT_THROW(grid.rows_with_losses(world + 1), std::invalid_argument);
  }
  EXPECT_THROW(replicas_of(8, 2).rows_with_losses(3), std::invalid_argument);
}

// Without experts, peers are in the order of their micro-batches. With experts, ranks of the same experts come first.
TEST(Grid, ReductionOrderIsThatOfMicroBatches) {
  EXPECT_TRUE(replicas_of(8, 2).reduction_order(3, {Axis::data}).empty());
  EXPECT_EQ(replicas_of(8, 1, 1, 2).reduction_order(0, {Axis::data}), (std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_TRUE(replicas_of(8, 1, 1, 2).reduction_order(5, {Axis::expert_data}).empty());
  EXPECT_TRUE(replicas_of(8, 1, 1, 8).reduction_order(5, {Axis::data}).empty());
  const Axes both{Axis::data, Axis::context};
  EXPECT_TRUE(Topology({{Axis::data, 3}, {Axis::context, 2}}).reduction_order(1, both).empty());
  // Ranks c * 3 + d: all parts of the first micro-batch, then of the second.
  EXPECT_EQ(Topology({{Axis::context, 2}, {Axis::data, 3}}).reduction_order(1, both),
            (std::vector<int>{0, 2, 4, 1, 3, 5}));
}

TEST(Grid, FirstPeersNumberGroups) {
  EXPECT_EQ(replicas_of(8, 2, 2).first_peers({Axis::data}), (std::vector<int>{0, 1, 0, 1, 4, 5, 4, 5}));
  EXPECT_EQ(replicas_of(4, 1).first_peers({Axis::tensor}), (std::vector<int>{0, 1, 2, 3}));
}

TEST(CallGroup, NamesComeBack) {
  for (const CallGroup group : {CallGroup(Axis::data), CallGroup(Axis::pipe), CallGroup(Axis::expert_inner),
                                CallGroup::stages(), CallGroup(Axes{Axis::data, Axis::context})})
    EXPECT_EQ(call_group_named(name_of(group), "here"), group) << name_of(group);
  EXPECT_EQ(name_of(CallGroup::stages()), "stages");
  EXPECT_EQ(name_of(CallGroup(Axes{Axis::context, Axis::data})), "data+context");
  EXPECT_FALSE(CallGroup(Axis::pipe) == CallGroup::stages());
  for (const char* wrong : {"", "dta", "data+", "+data", "stages+data", "world"})
    EXPECT_THROW(call_group_named(wrong, "here"), base::InputError) << wrong;
}

}  // namespace
}  // namespace trainyard::plan

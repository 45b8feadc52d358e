// Tests flat groups that declare a group of ranks or a sharded dim: shard counts and calls follow; some are refused.
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/blocks/head.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace trainyard::plan {

namespace {

ModelConfig nano() {
  auto m = preset("llama-nano");
  m.vocabulary = 256, m.lanes = 1;
  return m;
}

// A branch with a weight that is sharded over an axis that no layout has.
struct CutBranch : BranchKind {
  std::string prefix() const override { return "cut"; }
  void declare(Declaration& flat_group) const override {
    flat_group.parameter("cut.weight", {flat_group.model().hidden, 8}, {}, Decay::no, ShardedDim{0, Axis::context});
  }
  std::vector<SavedTensor> tensors(const ModelConfig&, const MicroShape&, Pass) const override { return {}; }
  std::int64_t forward_workspace_bytes(const ModelConfig&, const MicroShape&, Pass) const override { return 0; }
  std::int64_t backward_workspace_bytes(const ModelConfig&, const MicroShape&) const override { return 0; }
  double forward_flops(const ModelConfig&, const Lengths&) const override { return 0; }
};

// A head whose gradients are added over more ranks than the data-parallel ones.
struct WideHead : HeadKind {
  std::vector<FlatGroup> flat_groups(const ModelConfig& m, std::int64_t index) const override {
    auto all = HeadKind::flat_groups(m, index);
    all.front().group = {Axis::data, Axis::context};
    return all;
  }
};

class RanksOfAFlatGroup : public ::testing::Test {
 protected:
  void SetUp() override { register_block("head", std::make_shared<WideHead>()); }
  void TearDown() override { register_block("head", std::make_shared<HeadKind>()); }
};

}  // namespace

TEST_F(RanksOfAFlatGroup, ShardsAndCallsAreThoseOfItsRanks) {
  const auto m = nano();
  const Topology topology({{Axis::data, 2}, {Axis::context, 3}});
  const FlatGroupTable table(m, topology);
  EXPECT_EQ(table.entries().front().shards, 2);
  EXPECT_EQ(table.entries().back().shards, 6);
  EXPECT_EQ(table.entries().back().layout.shard, layout(table.entries().back().flat_group, 6).shard);
  const FlatGroupSet set(m, topology);
  EXPECT_EQ(set.layouts.back().shard, table.entries().back().layout.shard);
  std::int64_t data = 0, both = 0;
  for (const auto& c :
       step_calls(m, {1, base::DType::f32, base::DType::f32, {2, 1, 1, 2}, 2, topology}, Reduction::ordered, 0)) {
    EXPECT_EQ(c.ranks, c.group == CallGroup(Axis::data) ? 2 : 6);
    (c.group == CallGroup(Axis::data) ? data : both) += c.calls;
  }
  EXPECT_EQ(both, 2);  // the head, reduced and gathered
  EXPECT_EQ(data, 2 * (1 + m.layers));
}

// What a thread keeps of a model is of the model, of the ranks and of the kinds that it is asked for.
TEST_F(RanksOfAFlatGroup, OtherModelsRanksAndKindsHaveOtherTables) {
  auto m = nano();
  const auto expect = [&](const Topology& topology, int shards_of_head) {
    const FlatGroupTable table(m, topology);
    EXPECT_EQ(table.flat_groups(), m.layers + 2);
    const auto& head = table.entries().back();
    EXPECT_EQ(head.shards, shards_of_head);
    EXPECT_EQ(head.flat_group.parameters.back().shape, (std::vector<std::int64_t>{m.vocabulary, m.hidden}));
    EXPECT_EQ(head.layout.shard, layout(head.flat_group, shards_of_head).shard);
  };
  const Topology two({{Axis::data, 2}}), six({{Axis::data, 2}, {Axis::context, 3}});
  for (int turn = 0; turn < 2; ++turn) {
    register_block("head", std::make_shared<WideHead>());
    expect(two, 2), expect(six, 6);
    m.layers = 5, m.hidden = 64;
    expect(two, 2), expect(six, 6);
    register_block("head", std::make_shared<HeadKind>());
    expect(six, 2), expect(two, 2);
    m = nano();
    expect(six, 2), expect(two, 2);
  }
}

TEST_F(RanksOfAFlatGroup, WhatNoStoreCanDoIsRefused) {
  Plan p;
  p.model = nano();
  p.sequence = 32;
  register_branch("cut", std::make_shared<CutBranch>());
  p.model.branches.push_back("cut");
  const auto found = decision_problems(p);
  ASSERT_EQ(found.size(), 2u) << text_of(found);
  EXPECT_EQ(found[0].message,
            "dim 0 of 'layers.00.cut.weight' is sharded over 'context': that can be done over 'tensor' alone");
  EXPECT_EQ(found[1].message,
            "flat group 'head' adds up its gradients over 'data+context': that can be done over 'data' alone");
}

}  // namespace trainyard::plan

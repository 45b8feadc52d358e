// Tests the hierarchical ordered reduction in plans: which ranks are a node, bytes of memory and traffic by sums
// written here, times on a slow network, files of plans, searches, and refusals with a hint that works.
#include "libtrain/plan/grid/reduction_nodes.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/communication_time.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/grid/groups.h"
#include "libtrain/plan/machine_time.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace trainyard::plan {
namespace reduction_nodes_test {

using Ranks = std::vector<int>;

Plan sample(int ranks, int node, std::int64_t global_batch = 24, int zero = 2, int tensor = 1, int stages = 1) {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.vocabulary = 257, p.model.lanes = 2;
  p.zero = zero, p.reduction_ranks_per_node = node, p.tensor = tensor, p.pipeline = stages;
  p.topology = topology_of(p, ranks);
  p.global_batch = global_batch, p.micro_batch = 1, p.sequence = 32;
  return p;
}

std::map<std::string, Traffic> sent(const Plan& p, int rank) {
  std::map<std::string, Traffic> out;
  for (const auto& t : added_up(all_step_calls(p, rank))) out.emplace(name_of(t.group) + " " + t.operation, t);
  return out;
}

TEST(ReductionNodes, AreNeighboursAlongData) {
  const Topology plain({{Axis::pipe, 2}, {Axis::data, 8}, {Axis::tensor, 2}});
  for (const int zero_group : {1, 2, 4}) {
    const auto groups = plain.with_zero_groups(zero_group);
    for (const int node : {2, 4}) {
      const auto nodes = groups.with_reduction_nodes(node);
      EXPECT_EQ(nodes.size(Axis::reduction_inner), node);
      EXPECT_EQ(nodes.size(Axis::reduction_outer), 8 / node);
      EXPECT_EQ(nodes.peers(18, {Axis::reduction_inner}), (node == 2 ? Ranks{16, 18} : Ranks{16, 18, 20, 22}));
      EXPECT_EQ(nodes.peers(18, {Axis::reduction_outer}), (node == 2 ? Ranks{18, 22, 26, 30} : Ranks{18, 26}));
      EXPECT_EQ(nodes.stride(CallGroup(Axis::reduction_inner).axes()), 2);
      EXPECT_EQ(nodes.stride(CallGroup(Axis::reduction_outer).axes()), 2 * node);
      for (int rank = 0; rank < 32; ++rank)
        for (const auto axis : {Axis::pipe, Axis::data, Axis::tensor, Axis::zero_group, Axis::zero_copies}) {
          EXPECT_EQ(nodes.coordinate(rank, axis), groups.coordinate(rank, axis)) << name_of(axis) << " " << rank;
          EXPECT_EQ(nodes.peers(rank, {axis}), groups.peers(rank, {axis})) << name_of(axis) << " " << rank;
        }
      EXPECT_TRUE(nodes.nests({Axis::pipe, Axis::data, Axis::tensor}));
    }
    for (const int none : {1, 8}) EXPECT_EQ(groups.with_reduction_nodes(none).size(Axis::reduction_inner), 1);
  }
  for (const int wrong : {0, 3, 16}) EXPECT_THROW(plain.with_reduction_nodes(wrong), std::invalid_argument);
  EXPECT_THROW(plain.with_experts(2).with_reduction_nodes(4), std::invalid_argument);
  EXPECT_THROW(plain.with_reduction_nodes(2).with_reduction_nodes(2), std::invalid_argument);
  EXPECT_THROW(Topology({{Axis::data, 12}}).with_zero_groups(3).with_reduction_nodes(2), std::invalid_argument);
  std::map<std::string, std::vector<Ranks>> families;
  for (const auto& f : groups_of(Topology({{Axis::data, 6}}).with_reduction_nodes(2))) families[f.name] = f.groups;
  EXPECT_EQ(families.at("reduction_inner"), (std::vector<Ranks>{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(families.at("reduction_outer"), (std::vector<Ranks>{{0, 2, 4}, {1, 3, 5}}));
}

// 6 ranks in 3 nodes of 2. Every shard is smaller than a piece. 15 micro-batches are two full accumulation steps and
// one of 3 ranks, of which the last is in node 1.
TEST(ReductionNodes, StageAndSendWhatFollows) {
  const auto p = sample(6, 2, 15), all = sample(6, 1, 15);
  std::int64_t elements = 0, reductions = 0, largest = 0;  // with padding, of all occurrences
  const auto groups = flat_groups(p.model);
  for (const auto& o : occurrences(p.model)) {
    const auto padded = layout(groups[static_cast<std::size_t>(o.flat_group)], 6).padded;
    elements += padded, ++reductions, largest = std::max(largest, padded);
  }
  const std::int64_t shards = elements / 6 * 4;  // bytes of one shard of every reduction
  using Category = base::MemoryCategory;
  const auto before = memory_of_stage(all, 0), after = memory_of_stage(p, 0);
  EXPECT_EQ(before.categories[Category::communication_staging], base::aligned(largest * 4));
  EXPECT_EQ(after.categories[Category::communication_staging], base::aligned(largest / 6 * 4 * 4))
      << "of each rank of the node a shard, and two sums";
  for (int rank = 0; rank < 6; ++rank) {
    const int node = rank / 2;
    auto is = sent(p, rank);
    EXPECT_FALSE(is.contains("data ordered_reduce_scatter"));
    // Of three shards one to the other rank of the node.
    const int contributing = rank < 3 ? 3 : 2, adding = node < 2 ? 3 : 2;
    EXPECT_EQ(is.at("reduction_inner ordered_reduce_scatter").bytes, contributing * 3 * shards) << rank;
    EXPECT_EQ(is.at("reduction_inner ordered_reduce_scatter").calls, adding * 3 * reductions) << rank;
    // Three sums to the next node, or from the last node two to their owners; and the sum so far from its owner.
    const int full = node < 2 ? 3 : 2, uneven = node == 0 ? 3 : node == 1 ? 2 : 0, so_far = node > 0 ? 1 : 0;
    EXPECT_EQ(is.at("reduction_outer partial_sums").bytes, (2 * full + uneven + 2 * so_far) * shards) << rank;
    EXPECT_EQ(is.at("reduction_outer partial_sums").calls, (3 + 2 + 1 + 3 + 2 + 3 + 1 + 1) * reductions) << rank;
    EXPECT_EQ(is.at("data all_gather").bytes, sent(all, rank).at("data all_gather").bytes);
  }
}

// A shard of several pieces and a rest, in 2 nodes of 2.
TEST(ReductionNodes, LargeShardsTravelInPieces) {
  auto p = sample(4, 2, 4, 3);
  p.model = preset("gpt2-micro");
  p.model.vocabulary = 50257, p.model.lanes = 2;
  const auto groups = flat_groups(p.model);
  std::int64_t pieces = 0, bytes = 0;
  for (const auto& o : occurrences(p.model)) {
    const auto shard = layout(groups[static_cast<std::size_t>(o.flat_group)], 4).shard;
    pieces += (shard + (1 << 18) - 1) / (1 << 18), bytes += shard * 4;
  }
  ASSERT_GT(pieces, std::ssize(occurrences(p.model))) << "some shard is larger than a piece";
  EXPECT_EQ(memory_of_stage(p, 0).categories[base::MemoryCategory::communication_staging], 4 << 20);
  EXPECT_EQ(sent(p, 0).at("reduction_outer partial_sums").bytes, 2 * bytes);
  EXPECT_EQ(sent(p, 2).at("reduction_outer partial_sums").bytes, bytes);
  EXPECT_EQ(sent(p, 2).at("reduction_outer partial_sums").calls, 2 * pieces + std::ssize(occurrences(p.model)));
}

// The entries of a plan say of every rank what its calls send.
TEST(ReductionNodes, EveryRankIsInThePlan) {
  for (const auto& [ranks, node, tensor, stages, group] : std::vector<std::array<int, 5>>{
           {4, 2, 1, 1, 0}, {12, 3, 2, 1, 3}, {16, 2, 2, 2, 0}, {20, 2, 1, 1, 0}, {16, 2, 1, 1, 8}, {16, 8, 1, 1, 4}})
    for (const std::int64_t batch : {20, 27, 45}) {
      auto p = sample(ranks, node, batch, 3, tensor, stages);
      p.zero_group = group, p.topology = topology_of(p, ranks);
      ASSERT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
      predict(p);
      for (int rank = 0; rank < ranks; ++rank) {
        int entries = 0;
        for (const auto& entry : p.traffic) {
          if (!entry.has(rank)) continue;
          ++entries;
          EXPECT_EQ(entry.operations, added_up(all_step_calls(p, rank))) << ranks << " " << node << " rank " << rank;
        }
        EXPECT_EQ(entries, 1) << rank;
      }
    }
}

// Two pieces a second for each of two devices of a node that use the network. Three nodes wait for sums that go to the
// node in the middle.
TEST(ReductionNodes, AreTimedByTheNetwork) {
  Machine m;
  m.devices_per_node = 2, m.network_bandwidth = 4e6, m.network_share = 1, m.network_latency = 0.25;
  m.link_bandwidth = 1e9, m.link_share = 1, m.link_latency = 0;
  const SizedCalls two{Axis::reduction_outer, 2, "partial_sums", base::DType::f32, 2'000'000, 1, 1},
      three{Axis::reduction_outer, 3, "partial_sums", base::DType::f32, 3'000'000, 1, 1};
  const auto nodes = [](int ranks, int node) { return Topology({{Axis::data, ranks}}).with_reduction_nodes(node); };
  EXPECT_DOUBLE_EQ(call_seconds(m, nodes(4, 2), two), 0.5 + 0.25);
  EXPECT_DOUBLE_EQ(call_seconds(m, nodes(6, 2), three), 0.5 * 4 / 3 + 0.25);
  m.devices_per_node = 4;
  EXPECT_DOUBLE_EQ(call_seconds(m, nodes(4, 2), two), 1e-3) << "both nodes are in one of the machine";
  const auto measured = measured_as(Axis::reduction_outer, "partial_sums");
  EXPECT_EQ(measured.group + " " + measured.operation, "reduction_outer exchange");
}

TEST(ReductionNodes, RoundTrip) {
  auto p = sample(8, 4, 24, 3);
  p.zero_group = 4, p.topology = topology_of(p, 8);
  predict(p);
  const auto text = to_json(p);
  EXPECT_NE(text.find("\"reduction_ranks_per_node\": 4"), std::string::npos);
  const auto q = plan_from_json(text, "plan.json");
  EXPECT_EQ(q.reduction_ranks_per_node, 4);
  EXPECT_EQ(q.topology.size(Axis::reduction_inner), 4);
  EXPECT_EQ(q.topology.size(Axis::zero_group), 4);
  EXPECT_EQ(to_json(q), text);
  auto plain = sample(8, 1);
  predict(plain);
  EXPECT_EQ(to_json(plain).find("reduction_ranks"), std::string::npos) << "as in files of before";
  auto j = json_of(p);
  j["topology"] = nlohmann::ordered_json::parse(R"([{"axis":"reduction_outer","size":2}])");
  EXPECT_THROW(plan_from_json(j.dump(), "plan.json"), base::InputError);
}

TEST(ReductionNodes, AreRefusedWithWhatWouldWork) {
  const auto refused = [](const Plan& p, const std::string& message, const std::string& hint) {
    const auto found = decision_problems(p);
    ASSERT_EQ(found.size(), 1u) << text_of(found);
    EXPECT_EQ(found[0].message, message);
    EXPECT_EQ(found[0].hint, hint);
  };
  refused(sample(6, 4), "--reduction-ranks-per-node 4 does not divide the 6 data-parallel ranks",
          "--reduction-ranks-per-node 3, or leave it out");
  refused(sample(5, 2), "--reduction-ranks-per-node 2 does not divide the 5 data-parallel ranks",
          "leave it out: all ranks then reduce at once");
  refused(sample(4, ParallelLayout::of_a_node),
          "--reduction-ranks-per-node node: how many ranks a node has is not known here",
          "--reduction-ranks-per-node 8, if a node has 8 data-parallel ranks");
  refused(sample(4, 0), "--reduction-ranks-per-node 0 must lie between 1 and 131072", "give a value from 1 to 131072");
  auto p = sample(4, 2);
  p.reduction = Reduction::fast, p.topology = topology_of(p, 4);
  refused(p,
          "--reduction-ranks-per-node 2 orders the sums of --reduction ordered; with --reduction fast the library "
          "decides",
          "--reduction ordered, or leave --reduction-ranks-per-node out");
  p = sample(12, 2, 24, 3);
  p.zero_group = 3, p.topology = topology_of(p, 12);
  refused(p, "--reduction-ranks-per-node 2 and --zero-group 3: neither divides the other",
          "--reduction-ranks-per-node 3, or --zero-group 2");
  p = sample(4, 2);
  p.model = preset("moe-nano"), p.model.vocabulary = 257, p.model.lanes = 1;
  p.expert_parallel = 2, p.topology = topology_of(p, 4);
  refused(p,
          "--reduction-ranks-per-node 2 with --expert-parallel 2: ranks with the same experts add first, and they are "
          "in several nodes",
          "--expert-parallel 1, or leave --reduction-ranks-per-node out");
  for (const auto& [ranks, node] : std::vector<std::pair<int, int>>{{4, 1}, {4, 2}, {4, 4}, {1, 1}})
    EXPECT_TRUE(decision_problems(sample(ranks, node)).empty()) << ranks << " " << node;
}

}  // namespace reduction_nodes_test
}  // namespace trainyard::plan

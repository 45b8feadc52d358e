// Tests zero groups: which ranks are one, who sends whose shard to whom, bytes of memory and traffic by sums written
// here, files of plans, and refusals with a hint that works.
#include "libtrain/plan/grid/zero_groups.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/grid/groups.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace trainyard::plan {
namespace zero_groups_test {

using Ranks = std::vector<int>;

Plan sample(int ranks, int zero_group, int tensor = 1, int stages = 1) {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.vocabulary = 257, p.model.lanes = 2;
  p.zero = 3, p.zero_group = zero_group, p.tensor = tensor, p.pipeline = stages;
  p.topology = topology_of(p, ranks);
  p.global_batch = 24, p.sequence = 32;
  return p;
}

std::map<std::string, std::int64_t> sent(const Plan& p, int rank) {
  std::map<std::string, std::int64_t> out;
  for (const auto& t : added_up(all_step_calls(p, rank))) out[name_of(t.group) + " " + t.operation] += t.bytes;
  return out;
}

TEST(ZeroGroups, AreNeighboursAlongData) {
  const Topology plain({{Axis::pipe, 2}, {Axis::data, 6}, {Axis::tensor, 2}});
  const auto threes = plain.with_zero_groups(3);
  EXPECT_EQ(threes.peers(2, {Axis::zero_group}), (Ranks{0, 2, 4}));
  EXPECT_EQ(threes.peers(21, {Axis::zero_group}), (Ranks{19, 21, 23}));
  EXPECT_EQ(threes.peers(21, {Axis::zero_copies}), (Ranks{15, 21}));
  EXPECT_EQ(threes.size(Axis::zero_group), 3);
  EXPECT_EQ(threes.size(Axis::zero_copies), 2);
  for (int rank = 0; rank < 24; ++rank)
    for (const auto axis : {Axis::pipe, Axis::data, Axis::tensor}) {
      EXPECT_EQ(threes.coordinate(rank, axis), plain.coordinate(rank, axis));
      EXPECT_EQ(threes.peers(rank, {axis}), plain.peers(rank, {axis}));
      EXPECT_EQ(threes.reduction_position(rank), plain.reduction_position(rank));
    }
  EXPECT_TRUE(threes.nests({Axis::pipe, Axis::data, Axis::tensor}));
  for (const int none : {1, 6}) EXPECT_EQ(plain.with_zero_groups(none).size(Axis::zero_group), 1);
  for (const int wrong : {0, 4, 12}) EXPECT_THROW(plain.with_zero_groups(wrong), std::invalid_argument);
  EXPECT_THROW(plain.with_experts(2).with_zero_groups(3), std::invalid_argument);
  EXPECT_EQ(plain.with_experts(2).with_zero_groups(1).size(Axis::expert), 2) << "as it was";
  std::map<std::string, std::vector<Ranks>> families;
  for (const auto& f : groups_of(Topology({{Axis::data, 6}}).with_zero_groups(2))) families[f.name] = f.groups;
  EXPECT_EQ(families.at("zero_group"), (std::vector<Ranks>{{0, 1}, {2, 3}, {4, 5}}));
}

// Walks through all shards: the group shard at a place of every group has the shards of that part of the flat group,
// and each shard goes to exactly the ranks that have it.
TEST(ZeroGroups, EveryShardGoesWhereItBelongs) {
  for (const auto& [ranks, size] : std::vector<std::pair<int, int>>{{4, 2}, {6, 2}, {6, 3}, {8, 4}, {12, 3}, {64, 8}}) {
    const ZeroGroups groups(Topology({{Axis::data, ranks}}).with_zero_groups(size));
    ASSERT_EQ(groups.ranks(), size);
    ASSERT_EQ(groups.copies(), ranks / size);
    std::set<std::pair<int, int>> sends, receives;  // from, to
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(groups.first_source(rank), ranks / size * (rank % size));
      for (int k = 0; k < groups.copies(); ++k) {
        sends.insert({rank, groups.receiver(rank, k)});
        receives.insert({groups.first_source(rank) + k, rank});
        EXPECT_EQ(groups.receiver(rank, k) / size, k) << "one receiver in each group";
      }
      EXPECT_EQ(groups.keeps_own(rank), sends.contains({rank, rank}));
    }
    EXPECT_EQ(sends, receives);
    EXPECT_EQ(std::ssize(sends), ranks * groups.copies());
  }
}

TEST(ZeroGroups, HoldAndSendWhatFollows) {
  const auto all = sample(4, 0), pairs = sample(4, 2);
  std::int64_t elements = 0;  // of all flat groups, with padding
  for (const auto& flat_group : flat_groups(all.model)) elements += layout(flat_group, 4).padded;
  const auto before = memory_of_stage(all, 0), after = memory_of_stage(pairs, 0);
  using Category = base::MemoryCategory;
  EXPECT_EQ(before.categories[Category::parameters], elements / 4 * 4);
  EXPECT_EQ(after.categories[Category::parameters], (elements / 4 + elements / 2) * 4);
  EXPECT_EQ(after.total() - before.total(), elements / 2 * 4) << "and nothing else";
  auto bf16 = pairs;
  bf16.dtype = base::DType::bf16;
  EXPECT_EQ(memory_of_stage(bf16, 0).categories[Category::parameters], (elements / 4 + elements / 2) * 2);
  for (int rank = 0; rank < 4; ++rank) {
    auto was = sent(all, rank), is = sent(pairs, rank);
    // Three of four parts leave a rank without groups, one of two parts with them.
    EXPECT_EQ(is.at("zero_group all_gather") * 3, was.at("data all_gather") * 2);
    EXPECT_EQ(is.at("data all_to_all"), elements * (rank == 0 || rank == 3 ? 1 : 2)) << rank;
    EXPECT_EQ(is.at("data ordered_reduce_scatter"), was.at("data ordered_reduce_scatter"));
    EXPECT_EQ(is.size(), 3u);
  }
  EXPECT_EQ(sent(bf16, 1).at("data all_to_all"), elements) << "half of the bytes";
  const auto validation = all_validation_traffic(pairs, 0, 8);
  ASSERT_EQ(validation.size(), 1u);
  EXPECT_EQ(name_of(validation[0].group), "zero_group");
}

// The entries of a plan say of every rank what its calls send.
TEST(ZeroGroups, EveryRankIsInThePlan) {
  for (const auto& [ranks, group, tensor, stages] :
       std::vector<std::array<int, 4>>{{4, 2, 1, 1}, {6, 3, 1, 1}, {12, 3, 2, 1}, {16, 2, 2, 2}, {20, 5, 1, 2}}) {
    auto p = sample(ranks, group, tensor, stages);
    ASSERT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
    predict(p);
    for (int rank = 0; rank < ranks; ++rank) {
      int entries = 0;
      for (const auto& entry : p.traffic) {
        if (!entry.has(rank)) continue;
        ++entries;
        EXPECT_EQ(entry.operations, added_up(all_step_calls(p, rank))) << ranks << " " << group << " rank " << rank;
      }
      EXPECT_EQ(entries, 1) << rank;
    }
  }
}

TEST(ZeroGroups, RoundTrip) {
  auto p = sample(8, 2, 2);
  predict(p);
  const auto text = to_json(p);
  EXPECT_NE(text.find("\"zero_group\": 2"), std::string::npos);
  const auto q = plan_from_json(text, "plan.json");
  EXPECT_EQ(q.zero_group, 2);
  EXPECT_EQ(q.topology.size(Axis::zero_group), 2);
  EXPECT_EQ(to_json(q), text);
  auto plain = sample(8, 0, 2);
  predict(plain);
  EXPECT_EQ(to_json(plain).find("zero_group"), std::string::npos) << "as in files of before";
  auto j = json_of(p);
  j["topology"] = nlohmann::ordered_json::parse(R"([{"axis":"zero_copies","size":2},{"axis":"zero_group","size":2}])");
  EXPECT_THROW(plan_from_json(j.dump(), "plan.json"), base::InputError);
  j = json_of(p);
  j["zero_group"] = 3;
  EXPECT_THROW(plan_from_json(j.dump(), "plan.json"), base::InputError);
}

TEST(ZeroGroups, WrongValuesNameTheWordNode) {
  ParallelLayout layout;
  auto fields = fields_of(layout);
  const auto& field = base::field_named(fields, "zero-group", "a layout");
  const auto refusal = [&](const std::string& text) {
    try {
      field.set(text, "--zero-group");
    } catch (const base::UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("-1"), "--zero-group -1 must lie between 0 and 131072; it may also be node");
  EXPECT_EQ(refusal("nodes"), "--zero-group 'nodes' is not a whole number; it may also be node");
  EXPECT_EQ(refusal("node"), "");
  EXPECT_EQ(layout.zero_group, ParallelLayout::of_a_node);
  EXPECT_EQ(refusal("8"), "");
  EXPECT_EQ(layout.zero_group, 8);
}

TEST(ZeroGroups, AreRefusedWithWhatWouldWork) {
  const auto refused = [](const Plan& p, const std::string& message, const std::string& hint) {
    const auto found = decision_problems(p);
    ASSERT_EQ(found.size(), 1u) << text_of(found);
    EXPECT_EQ(found[0].message, message);
    EXPECT_EQ(found[0].hint, hint);
  };
  refused(sample(6, 4), "--zero-group 4 does not divide the 6 data-parallel ranks", "--zero-group 3, or leave it out");
  refused(sample(9, 2), "--zero-group 2 does not divide the 9 data-parallel ranks", "--zero-group 3, or leave it out");
  refused(sample(5, 2), "--zero-group 2 does not divide the 5 data-parallel ranks",
          "leave it out: all ranks are then one group");
  refused(sample(8, 8, 2), "--zero-group 8 does not divide the 4 data-parallel ranks",
          "--zero-group 2, or leave it out");
  refused(sample(4, 1), "--zero-group 1: every rank would hold all weights, and gather copies of them",
          "--zero 2, or a --zero-group of several ranks");
  refused(sample(4, ParallelLayout::of_a_node), "--zero-group node: how many ranks a node has is not known here",
          "--zero-group 8, if a node has 8 data-parallel ranks");
  refused(sample(4, -2), "--zero-group -2 must lie between 0 and 131072", "give a value from 0 to 131072");
  auto p = sample(4, 2);
  p.zero = 2, p.topology = topology_of(p, 4);
  refused(p, "--zero-group 2 says among which ranks the weights are sharded, and --zero 2 shards no weights",
          "--zero 3, or leave --zero-group out");
  p = sample(4, 2);
  p.offload.parameters = {Place::disk, 1};
  refused(p, "--offload parameters=disk: with --zero-group 2 all weights are in the memory of each group of ranks",
          "leave --zero-group out, or offload optimizer or gradients alone");
  p = sample(4, 2);
  p.model = preset("moe-nano"), p.model.vocabulary = 257, p.model.lanes = 1;
  p.expert_parallel = 2, p.topology = topology_of(p, 4);
  refused(p, "--zero-group 2 with --expert-parallel 2: experts are sharded over other ranks than the rest",
          "--expert-parallel 1, or leave --zero-group out");
  for (const auto& [ranks, group] : std::vector<std::pair<int, int>>{{4, 0}, {4, 2}, {4, 4}, {1, 0}})
    EXPECT_TRUE(decision_problems(sample(ranks, group)).empty()) << ranks << " " << group;
}

}  // namespace zero_groups_test
}  // namespace trainyard::plan

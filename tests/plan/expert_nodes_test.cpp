// Tests plans with hierarchical all-to-alls: their files, refusals with a hint that works, the bytes of each hop by
// sums written here, the buffers, and which ranks are a node.
#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/decision_problems.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/expert_rounds.h"
#include "libtrain/plan/blocks/held.h"
#include "libtrain/plan/communication_time.h"
#include "libtrain/plan/dispatch_rounds.h"
#include "libtrain/plan/evaluation.h"
#include "libtrain/plan/extent.h"
#include "libtrain/plan/grid/groups.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace trainyard::plan {
namespace expert_nodes_test {

using Ranks = std::vector<int>;

Plan sample(int ranks, int experts, int node, int stages = 1) {
  Plan p;
  p.model = preset("moe-nano");
  p.model.vocabulary = 257, p.model.lanes = 1, p.model.layers = 6;
  p.model.experts.count = {8}, p.model.experts.every = 2, p.model.experts.capacity_factor = "1.5";
  p.pipeline = stages, p.expert_parallel = experts, p.expert_ranks_per_node = node;
  p.topology = topology_of(p, ranks);
  p.global_batch = 8, p.sequence = 32;
  return p;
}

std::map<std::string, Traffic> sent_to_experts(const std::vector<Traffic>& all) {
  std::map<std::string, Traffic> out;
  for (const auto& t : all)
    if (const auto group = name_of(t.group); group.starts_with("expert") && group != "expert_data")
      out[group + " " + t.operation] = t;
  return out;
}

// Eight data-parallel ranks of two tensor-parallel ranks each. Experts over all of them, nodes of two and of four.
TEST(ExpertNodes, AreTwoAxesOfExperts) {
  const Topology plain({{Axis::data, 8}, {Axis::tensor, 2}});
  const auto pairs = plain.with_experts(8, 2), fours = plain.with_experts(8, 4), some = plain.with_experts(4, 2);
  EXPECT_EQ(pairs.peers(0, {Axis::expert_inner}), (Ranks{0, 2}));
  EXPECT_EQ(pairs.peers(0, {Axis::expert_outer}), (Ranks{0, 4, 8, 12}));
  EXPECT_EQ(pairs.peers(7, {Axis::expert_inner}), (Ranks{5, 7}));
  EXPECT_EQ(pairs.peers(7, {Axis::expert_outer}), (Ranks{3, 7, 11, 15}));
  EXPECT_EQ(fours.peers(9, {Axis::expert_inner}), (Ranks{9, 11, 13, 15}));
  EXPECT_EQ(fours.peers(9, {Axis::expert_outer}), (Ranks{1, 9}));
  EXPECT_EQ(some.peers(14, {Axis::expert_inner}), (Ranks{12, 14}));
  EXPECT_EQ(some.peers(14, {Axis::expert_outer}), (Ranks{10, 14}));
  EXPECT_EQ(some.peers(14, {Axis::expert_data}), (Ranks{6, 14}));
  for (const auto& [nodes, one] :
       {std::pair{pairs, plain.with_experts(8)}, {fours, plain.with_experts(8)}, {some, plain.with_experts(4)}}) {
    EXPECT_EQ(nodes.size(Axis::expert), one.size(Axis::expert));
    EXPECT_EQ(nodes.size(Axis::expert_inner) * nodes.size(Axis::expert_outer), one.size(Axis::expert));
    EXPECT_EQ(nodes.size(Axis::data), 8);
    for (int rank = 0; rank < 16; ++rank) {
      for (const auto axis : {Axis::data, Axis::tensor, Axis::expert, Axis::expert_data}) {
        EXPECT_EQ(nodes.coordinate(rank, axis), one.coordinate(rank, axis)) << name_of(axis);
        EXPECT_EQ(nodes.peers(rank, {axis}), one.peers(rank, {axis})) << name_of(axis);
        EXPECT_EQ(place_in_group(nodes, rank, {axis}), place_in_group(one, rank, {axis})) << name_of(axis);
      }
      EXPECT_EQ(nodes.coordinate(rank, Axis::expert),
                nodes.coordinate(rank, Axis::expert_outer) * nodes.size(Axis::expert_inner) +
                    nodes.coordinate(rank, Axis::expert_inner));
      EXPECT_EQ(nodes.rank_of({{Axis::data, nodes.coordinate(rank, Axis::data)}, {Axis::tensor, rank % 2}}), rank);
      EXPECT_EQ(expert_share(nodes, rank).part, expert_share(one, rank).part);
    }
    const FlatGroup of_experts{"u", Part::layers, {Axis::expert_data}, {}, {Axis::expert, Axis::tensor}},
        of_all{"v", Part::layers, {Axis::data}, {}, {}};
    const Parameter parameter{"u.a", {64}, {64}, {}, true, {}};
    for (int rank = 0; rank < 16; ++rank) {
      EXPECT_TRUE(is_first_holder(of_experts, parameter, nodes, rank)) << "each rank has others, or another piece";
      EXPECT_EQ(is_first_holder(of_all, parameter, nodes, rank), rank % 2 == 0);
    }
  }
  for (const int node : {1, 8}) {
    EXPECT_EQ(plain.with_experts(8, node).size(Axis::expert_inner), 1) << "one hop";
    EXPECT_EQ(plain.with_experts(8, node).finest_axes().size(), 3u);
  }
  EXPECT_THROW(plain.with_experts(8, 3), std::invalid_argument);
  EXPECT_THROW(plain.with_experts(8, 0), std::invalid_argument);
  EXPECT_THROW(plain.with_experts(4, 8), std::invalid_argument);
}

TEST(ExpertNodes, RoundTrip) {
  auto p = sample(8, 4, 2, 2);
  predict(p);
  const auto text = to_json(p);
  EXPECT_NE(text.find("\"expert_node\": 2"), std::string::npos);
  const auto q = plan_from_json(text, "plan.json");
  EXPECT_EQ(to_json(q), text);
  EXPECT_EQ(q.topology.size(Axis::expert_inner), 2);
  EXPECT_EQ(q.topology.size(Axis::expert_outer), 2);
  EXPECT_EQ(q.traffic, p.traffic);
  EXPECT_TRUE(problems(q, 8).empty());
  EXPECT_EQ(sharing_text(q), " in 2 pipeline stages (1f1b) of 4 replicas, experts over 4 ranks (2 a node)");
  auto plain = sample(8, 4, 1, 2);
  predict(plain);
  EXPECT_EQ(to_json(plain).find("expert_node"), std::string::npos) << "as in files of before";
  auto j = json_of(p);
  j["topology"] =
      nlohmann::ordered_json::parse(R"([{"axis":"expert_outer","size":4},{"axis":"expert_inner","size":2}])");
  EXPECT_THROW(plan_from_json(j.dump(), "plan.json"), base::InputError);
  j = json_of(p);
  j["expert_node"] = 3;
  EXPECT_THROW(plan_from_json(j.dump(), "plan.json"), base::InputError);
}

TEST(ExpertNodes, AreRefusedWithWhatWouldWork) {
  const auto refused = [](const Plan& p, const std::string& message, const std::string& hint) {
    const auto found = decision_problems(p);
    ASSERT_EQ(found.size(), 1u) << text_of(found);
    EXPECT_EQ(found[0].message, message);
    EXPECT_EQ(found[0].hint, hint);
  };
  refused(sample(4, 4, 3),
          "--expert-ranks-per-node 3 does not divide the 4 expert-parallel ranks (--expert-parallel 4)",
          "--expert-ranks-per-node 2, or leave it out");
  refused(sample(8, 8, 16),
          "--expert-ranks-per-node 16 does not divide the 8 expert-parallel ranks (--expert-parallel 8)",
          "--expert-ranks-per-node 4, or leave it out");
  refused(sample(4, 4, 4),
          "--expert-ranks-per-node 4 is all expert-parallel ranks (--expert-parallel 4): a hierarchical all-to-all "
          "needs several nodes",
          "--expert-ranks-per-node 2, or leave it out");
  refused(sample(4, 2, 2),
          "--expert-ranks-per-node 2 is all expert-parallel ranks (--expert-parallel 2): a hierarchical all-to-all "
          "needs several nodes",
          "leave it out");
  refused(sample(4, 1, 2), "--expert-ranks-per-node 2 needs expert parallelism, and --expert-parallel is 1",
          "leave it out, or --expert-parallel 4");
  auto dense = sample(4, 1, 2);
  dense.model = preset("gpt2-nano"), dense.model.vocabulary = 257, dense.model.lanes = 1;
  refused(dense, "--expert-ranks-per-node 2 needs experts, and the model has none",
          "leave it out, or choose a model with experts (train --help-model)");
  auto p = sample(4, 4, 1);
  p.expert_ranks_per_node = 0;
  refused(p, "--expert-ranks-per-node 0 must lie between 1 and 131072", "give a value from 1 to 131072");
  EXPECT_TRUE(decision_problems(sample(8, 8, 2)).empty());
  EXPECT_TRUE(decision_problems(sample(8, 8, 4)).empty());
}

// Three layers with experts, two micro-batches a rank. 6 places of each of 8 experts make 48 rows of 64 numbers. The
// rows are sent four times, their counts once, and each among the 2 ranks of a node and among 4 nodes.
TEST(ExpertNodes, EachHopSendsItsPart) {
  for (const int chunks : {1, 2}) {
    auto p = sample(8, 4, 2);
    p.model.hidden = 64, p.model.heads = p.model.kv_heads = 2;
    p.global_batch = 16, p.expert_overlap_chunks = chunks;
    predict(p);
    const std::int64_t rows = 48 * 64 * 4, counts = 8 * 2 * 4, whole = 3 * 2 * (4 * rows + counts);
    auto sent = sent_to_experts(p.traffic[0].operations);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(sent.at("expert_inner all_to_all").bytes, whole / 2);
    EXPECT_EQ(sent.at("expert_outer all_to_all").bytes, whole / 2);
    for (const auto& [name, t] : sent) EXPECT_EQ(t.calls, 3 * 2 * (4 * chunks + 1)) << name;
    p = sample(8, 8, 2);
    p.model.hidden = 64, p.model.heads = p.model.kv_heads = 2;
    p.global_batch = 16, p.recompute = Recompute::layers;
    predict(p);
    sent = sent_to_experts(p.traffic[0].operations);
    const std::int64_t again = 3 * 2 * (6 * rows + 2 * counts);
    EXPECT_EQ(sent.at("expert_inner all_to_all").bytes, again / 2);
    EXPECT_EQ(sent.at("expert_outer all_to_all").bytes, again / 4 * 3);
    sent = sent_to_experts(all_validation_traffic(p, 0, 8));
    EXPECT_EQ(sent.at("expert_inner all_to_all").bytes, 3 * (2 * rows + counts) / 2);
    EXPECT_EQ(sent.at("expert_outer all_to_all").bytes, 3 * (2 * rows + counts) / 4 * 3);
  }
}

// All ranks together agree on the number of dispatch rounds.
TEST(ExpertNodes, RoundsGoInTwoHopsToo) {
  auto p = sample(4, 4, 2);
  p.model.experts.capacity_factor = "none", p.model.experts.top_k = 2;
  predict(p);
  const std::int64_t rows = 4 * 32 * p.model.hidden * 4, groups = 8 * 2 * 4, micros = 2, layers = 3;
  const auto sent = sent_to_experts(p.traffic[0].operations);
  ASSERT_EQ(sent.size(), 3u);
  for (const char* group : {"expert_inner", "expert_outer"})
    EXPECT_EQ(sent.at(std::string(group) + " all_to_all").bytes, layers * micros * (4 * rows + groups) / 2) << group;
  EXPECT_EQ(sent.at("expert all_reduce").bytes, layers * micros * 2 * 3 * 4 / 4);
  const std::vector<FurtherRounds> made{{5, 0, 0}, {0, 0, 0}, {1, 3, 4}};
  const auto further = sent_to_experts(added_up(further_round_calls(p, made)));
  ASSERT_EQ(further.size(), 2u);
  for (const auto& [name, t] : further)
    EXPECT_EQ(t.bytes, (6 * (2 * rows + groups) + 3 * 2 * rows + 4 * (rows + groups)) / 2) << name;
}

// Two buffers of the largest all-to-all, and nothing else. A stage without experts has none.
TEST(ExpertNodes, TwoBuffersAreHeld) {
  constexpr auto staging = base::MemoryCategory::communication_staging;
  for (const int chunks : {1, 2})
    for (const char* evaluation : {"same", "3"}) {
      auto p = sample(4, 4, 2), one = sample(4, 4, 1);
      for (auto* q : {&p, &one})
        q->expert_overlap_chunks = chunks, q->model.experts.evaluation_capacity_factor = evaluation, predict(*q);
      // 32 tokens: 6 places of 8 experts in training, 12 in an evaluation with a factor of 3.
      const std::int64_t of_row = p.model.hidden * 4, evaluated = (evaluation[0] == '3' ? 12 : 6) * 8 * of_row / chunks;
      auto expected = one.memory.categories;
      expected[staging] += 2 * evaluated;
      EXPECT_EQ(p.memory.categories, expected);
      EXPECT_EQ(evaluation_memory(p, 0).categories[staging] - evaluation_memory(one, 0).categories[staging],
                2 * evaluated);
    }
  auto p = sample(8, 4, 2, 2), one = sample(8, 4, 1, 2);
  for (auto* q : {&p, &one}) q->partition = "0,1", predict(*q);  // the embedding alone, then the rest
  EXPECT_EQ(p.stage_memory[0], one.stage_memory[0]);
  EXPECT_GT(p.stage_memory[1].total(), one.stage_memory[1].total());
}

// The bound covers both hops also where rows are nearly all of the memory.
TEST(ExpertNodes, ExtentsLieAbove) {
  for (const char* capacity : {"none", "1", "64"})
    for (const auto recompute : recomputations) {
      auto p = sample(8, 8, 2);
      p.model.experts.count = {64}, p.model.experts.top_k = 32, p.model.experts.capacity_factor = capacity;
      p.model.experts.ffn = 1, p.model.layers = 1, p.model.experts.every = 1;
      p.micro_batch = 1 << 10, p.global_batch = 64 << 10, p.recompute = recompute;
      ASSERT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
      predict(p);
      EXPECT_LE(static_cast<double>(p.memory.total()), extent(p).memory) << capacity;
      std::int64_t sent = 0;
      for (const auto& t : p.traffic[0].operations) sent += t.bytes;
      EXPECT_LE(static_cast<double>(sent), extent(p).traffic) << capacity;
      EXPECT_GT(static_cast<double>(sent), extent(p).traffic / 1000) << capacity;
    }
}

TEST(ExpertNodes, GroupsAreMeasured) {
  std::map<std::string, std::vector<Ranks>> groups;
  for (const auto& family : groups_of(sample(8, 4, 2, 2).topology)) groups[family.name] = family.groups;
  EXPECT_EQ(groups.at("expert"), (std::vector<Ranks>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(groups.at("expert_inner"), (std::vector<Ranks>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups.at("expert_outer"), (std::vector<Ranks>{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_FALSE(groups.contains("expert_data"));
}

}  // namespace expert_nodes_test
}  // namespace trainyard::plan

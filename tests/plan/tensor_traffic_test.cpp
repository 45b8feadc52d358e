// Tests what tensor-parallel ranks send one another: sums of what kinds of blocks state for one micro-batch. Also plans
// with a tensor axis as files.
#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/blocks/embedding.h"
#include "libtrain/plan/blocks/feed_forward.h"
#include "libtrain/plan/blocks/head.h"
#include "libtrain/plan/blocks/layer.h"
#include "libtrain/plan/communication_time.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace trainyard::plan {
namespace tensor_traffic_test {

// In forward one exchange of partial sums and one gather; in backward a sum of some numbers.
struct TalkingLayer : LayerKind {
  std::vector<GroupCall> tensor_calls(const ModelConfig& m, const MicroShape& s, Pass pass,
                                      Recompute recompute) const override {
    const std::int64_t passes = pass == Pass::train && recompute == Recompute::layers ? 2 : 1,
                       elements = s.rows() * m.hidden;
    std::vector<GroupCall> calls{{"all_to_all", base::DType::f32, 4 * elements, passes},
                                 {"all_gather", s.dtype, s.element_bytes() * elements, passes}};
    if (pass == Pass::train) calls.push_back({"all_reduce", base::DType::f32, 4 * m.hidden, 1});
    return calls;
  }
};

template <class Kind> struct Silent : Kind {
  std::vector<GroupCall> tensor_calls(const ModelConfig&, const MicroShape&, Pass, Recompute) const override {
    return {};
  }
};

class TensorTraffic : public ::testing::Test {
 protected:
  void SetUp() override {
    register_block("embedding", std::make_shared<Silent<EmbeddingKind>>());
    register_block("layer", std::make_shared<TalkingLayer>());
    register_block("head", std::make_shared<Silent<HeadKind>>());
  }
  void TearDown() override { of_this_library(); }
  static void of_this_library() {
    register_block("embedding", std::make_shared<EmbeddingKind>());
    register_block("layer", std::make_shared<LayerKind>());
    register_block("head", std::make_shared<HeadKind>());
  }
};

constexpr std::int64_t layers = 2, hidden = 32, rows = 64;  // of gpt2-nano, and of a micro-batch

Plan sample(int data, int tensor) {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.vocabulary = 257, p.model.lanes = 4;
  p.topology = replicas_of(data * tensor, tensor);
  p.tensor = tensor, p.dtype = base::DType::bf16;
  p.global_batch = 8, p.micro_batch = 2, p.sequence = 32;  // 4 micro-batches
  predict(p);
  return p;
}

Traffic of_tensor(const std::vector<Traffic>& all, const std::string& operation) {
  for (const auto& t : all)
    if (name_of(t.group) == "tensor" && t.operation == operation) return t;
  return {};
}

Traffic tensor(const std::string& operation, std::int64_t calls, std::int64_t bytes) {
  return {Axis::tensor, operation, calls, bytes};
}

TEST_F(TensorTraffic, IsThatOfTheBlocksForEachMicroBatchOfTheRank) {
  const auto p = sample(1, 2);
  ASSERT_EQ(p.traffic.size(), 1u);
  EXPECT_EQ(p.traffic[0].last_rank, 1);
  const auto& sent = p.traffic[0].operations;
  EXPECT_EQ(of_tensor(sent, "all_to_all"), tensor("all_to_all", 4 * layers, 4 * layers * rows * hidden * 4 / 2));
  EXPECT_EQ(of_tensor(sent, "all_gather"), tensor("all_gather", 4 * layers, 4 * layers * rows * hidden * 2 / 2));
  EXPECT_EQ(of_tensor(sent, "all_reduce"), tensor("all_reduce", 4 * layers, 4 * layers * hidden * 4));
  EXPECT_EQ(sample(2, 1).traffic[0].operations.size(), 2u);  // for the flat groups alone
}

// Three replicas of two ranks for four micro-batches: the first replica has two of them.
TEST_F(TensorTraffic, ReplicasThatIdleSendNothing) {
  const auto p = sample(3, 2);
  ASSERT_EQ(p.traffic.size(), 2u);
  EXPECT_EQ(p.traffic[0].last_rank, 1);
  EXPECT_EQ(p.traffic[1].first_rank, 2);
  EXPECT_EQ(p.traffic[1].last_rank, 5);
  EXPECT_EQ(of_tensor(p.traffic[0].operations, "all_to_all").calls, 2 * layers);
  EXPECT_EQ(of_tensor(p.traffic[1].operations, "all_to_all").calls, 1 * layers);
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(added_up(all_step_calls(p, rank)), p.traffic[rank < 2 ? 0 : 1].operations) << rank;
}

TEST_F(TensorTraffic, RecomputationSendsForwardAgain) {
  auto p = sample(1, 4);
  const auto once = p.traffic[0].operations;
  p.recompute = Recompute::layers;
  predict(p);
  const auto again = p.traffic[0].operations;
  EXPECT_EQ(of_tensor(again, "all_to_all").bytes, 2 * of_tensor(once, "all_to_all").bytes);
  EXPECT_EQ(of_tensor(again, "all_reduce"), of_tensor(once, "all_reduce"));
  EXPECT_EQ(of_tensor(once, "all_to_all").bytes, 4 * layers * rows * hidden * 4 / 4 * 3);
}

TEST_F(TensorTraffic, SelectiveRecomputationSendsNothingAgain) {
  of_this_library();
  for (const bool shared : {false, true}) {
    auto p = sample(1, 2);
    p.micro_batch = 4, p.sequence_parallel = shared;
    predict(p);
    const auto once = p.traffic[0].operations;
    p.recompute = Recompute::selective;
    predict(p);
    EXPECT_EQ(p.traffic[0].operations, once) << shared;
  }
}

// Every replica evaluates in every accumulation step. Without sequences left it evaluates the last ones again.
TEST_F(TensorTraffic, AValidationIsRoundsOfEveryReplica) {
  const auto p = sample(3, 2);
  for (const auto& [sequences, rounds] : {std::pair<std::int64_t, std::int64_t>{2, 1}, {6, 1}, {8, 2}}) {
    const auto sent = all_validation_traffic(p, 0, sequences);
    EXPECT_EQ(of_tensor(sent, "all_to_all"),
              tensor("all_to_all", rounds * layers, rounds * layers * rows * hidden * 4 / 2));
    EXPECT_EQ(of_tensor(sent, "all_reduce"), Traffic{});
  }
}

// By hand, for two layers with two branches each and a micro-batch of 64 tokens in bf16. Tables send words. Every
// branch and the head send an f32 sum in forward or backward, and its tokens. The head also sends what losses need of
// each token.
TEST_F(TensorTraffic, OfOurKindsIsThatOfEveryBranchOfTheTableAndOfTheHead) {
  of_this_library();
  constexpr std::int64_t branches = 2 * layers, micros = 4, stream = rows * hidden;
  const auto whole = sample(1, 2).traffic[0].operations;
  EXPECT_EQ(of_tensor(whole, "all_to_all"),
            tensor("all_to_all", micros * (2 * branches + 1), micros * (2 * branches + 1) * stream * 4 / 2));
  EXPECT_EQ(of_tensor(whole, "all_gather"), tensor("all_gather", micros * (2 * branches + 2),
                                                   micros * ((2 * branches + 1) * stream * 2 + 2 * 3 * rows * 4) / 2));
  EXPECT_EQ(of_tensor(whole, "all_reduce"), tensor("all_reduce", micros, micros * stream * 2));
  EXPECT_EQ(of_tensor(whole, "reduce_scatter"), Traffic{});

  auto p = sample(1, 2);
  p.micro_batch = 4, p.sequence_parallel = true;  // 2 micro-batches of twice as many tokens
  predict(p);
  const auto shared = p.traffic[0].operations;
  constexpr std::int64_t half = micros / 2, wide = 2 * stream, norm = 2 * (2 * rows / 64) * hidden * 4;
  EXPECT_EQ(of_tensor(shared, "all_to_all"),
            tensor("all_to_all", half * (2 * branches + 1), half * (2 * branches + 1) * wide * 4 / 2));
  EXPECT_EQ(of_tensor(shared, "all_gather"),
            tensor("all_gather", half * (4 * branches + 4),
                   half * ((3 * branches + 2) * wide * 2 + (branches + 1) * norm + 2 * 3 * 2 * rows * 4) / 2));
  EXPECT_EQ(of_tensor(shared, "reduce_scatter"), tensor("reduce_scatter", half, half * wide * 2 / 2));
  EXPECT_EQ(of_tensor(shared, "all_reduce"), Traffic{});
}

// By hand. A layer's recomputation sends the sum of its first branch, since nobody reads the last branch's sum, but it
// gathers the tokens of both. A last branch that must compute its output also adds it up.
TEST_F(TensorTraffic, OfOurKindsRecomputationSendsWhatIsRead) {
  of_this_library();
  constexpr std::int64_t branches = 2 * layers, micros = 4, stream = rows * hidden;
  const auto sent = [](std::int64_t micro_batch, bool shared) {
    auto p = sample(1, 2);
    p.recompute = Recompute::layers, p.micro_batch = micro_batch, p.sequence_parallel = shared;
    predict(p);
    return p.traffic[0].operations;
  };
  const auto whole = sent(2, false);
  constexpr auto sums = micros * (5 * layers + 1);  // forward 2 of a layer, recomputed 1, backward 2; the head's
  EXPECT_EQ(of_tensor(whole, "all_to_all"), tensor("all_to_all", sums, sums * stream * 4 / 2));
  EXPECT_EQ(of_tensor(whole, "all_gather"),
            tensor("all_gather", sums + micros, (sums * stream * 2 + micros * 2 * 3 * rows * 4) / 2));
  EXPECT_EQ(of_tensor(whole, "all_reduce"), tensor("all_reduce", micros, micros * stream * 2));

  const auto shared = sent(4, true);
  constexpr std::int64_t half = micros / 2, wide = 2 * stream, norm = 2 * (2 * rows / 64) * hidden * 4;
  EXPECT_EQ(of_tensor(shared, "all_to_all"), tensor("all_to_all", sums / 2, sums / 2 * wide * 4 / 2));
  EXPECT_EQ(of_tensor(shared, "all_gather"),
            tensor("all_gather", half * (5 * branches + 4),
                   half * ((4 * branches + 2) * wide * 2 + (branches + 1) * norm + 2 * 3 * 2 * rows * 4) / 2));
  EXPECT_EQ(of_tensor(shared, "reduce_scatter"), tensor("reduce_scatter", half, half * wide * 2 / 2));

  struct Unaware : FeedForwardKind {
    bool skips_unread_output() const override { return BranchKind::skips_unread_output(); }
  };
  register_branch("ffn", std::make_shared<Unaware>());
  EXPECT_EQ(of_tensor(sent(2, false), "all_to_all").calls, micros * (6 * layers + 1));
  EXPECT_EQ(of_tensor(sent(4, true), "all_to_all").calls, half * (6 * layers + 1));
  register_branch("ffn", std::make_shared<FeedForwardKind>());
}

// Sums over words take the time of sums over numbers.
TEST_F(TensorTraffic, WordsTakeTheTimeOfNumbers) {
  of_this_library();
  Profile profile;
  for (const auto* operation : {"all_gather", "all_to_all", "all_reduce"}) {
    CommSeries s{"tensor", operation, "f32", 2, 1, {}, {}, 0};
    for (const std::int64_t bytes : {64, 4096, 65536}) {
      CommPoint q;
      q.bytes = bytes, q.repeats = {static_cast<double>(bytes) / 1e9};
      s.points.push_back(q);
    }
    s.fit = fit_link(s.samples());
    profile.communication.push_back(s);
  }
  const auto times = communication_times(sample(1, 2), profile);
  const auto words =
      std::find_if(times.begin(), times.end(), [](const auto& t) { return t.operation == "all_reduce"; });
  ASSERT_NE(words, times.end());
  EXPECT_EQ(words->calls, 4);
  EXPECT_NEAR(words->seconds, 4 * rows * hidden * 2 / 1e9, 1e-9);
}

TEST_F(TensorTraffic, TakesTheTimeOfItsOwnLinks) {
  Profile profile;
  for (const auto* group : {"data", "tensor"})
    for (const auto* operation : {"ordered_reduce_scatter", "all_gather", "all_to_all", "all_reduce"}) {
      CommSeries s{group, operation, "f32", 2, 1, {}, {}, 0};
      for (const std::int64_t bytes : {1024, 65536, 4194304}) {
        CommPoint q;
        q.bytes = bytes;
        q.repeats = {static_cast<double>(bytes) / (s.group == "data" ? 1e9 : 8e9)};
        s.points.push_back(q);
      }
      s.fit = fit_link(s.samples());
      profile.communication.push_back(s);
    }
  const auto p = sample(2, 2);
  const auto times = communication_times(p, profile);
  std::vector<std::string> names;
  for (const auto& t : times) names.push_back(name_of(t.group) + " " + t.operation);
  EXPECT_EQ(names, (std::vector<std::string>{"data ordered_reduce_scatter", "data all_gather", "tensor all_to_all",
                                             "tensor all_gather", "tensor all_reduce"}));
  EXPECT_EQ(times[2].calls, 2 * layers);
  EXPECT_NEAR(times[2].seconds, 2 * layers * rows * hidden * 4 / 8e9, 1e-9);
  for (auto& s : profile.communication)
    if (s.group == "tensor") s.ranks = 4;
  EXPECT_THROW(communication_times(p, profile), base::InputError);
  for (auto& s : profile.communication)
    if (s.group == "tensor") s.group = "world", s.ranks = 2;
  EXPECT_EQ(communication_times(p, profile).size(), 5u);  // the world is used instead
}

// A segment of a transfer has 16 MiB, and at least 1 MiB of each shard.
TEST(TransferSegments, GrowWithTheShards) {
  const auto tensor_parallel = replicas_of(8, 2);
  constexpr std::int64_t mib = 1 << 20;
  for (const auto& [shards, bytes, segments] : {std::tuple{2, 16 * mib, 1},
                                                {2, 16 * mib + 1, 2},
                                                {16, 1024 * mib, 64},
                                                {17, 17 * mib, 1},
                                                {17, 17 * mib + 1, 2},
                                                {128, 1024 * mib, 8},
                                                {512, 1024 * mib, 2},
                                                {1, 1024 * mib, 1}})
    EXPECT_EQ(transfer_segments(bytes, shards, tensor_parallel), segments) << shards << " shards of " << bytes;
  EXPECT_EQ(transfer_segments(1024 * mib, 128, replicas_of(8, 1)), 1) << "nothing waits";
  EXPECT_EQ(transfer_segments(1024 * mib, 1 << 20, tensor_parallel, std::int64_t{1} << 50), 1) << "no overflow";
}

TEST_F(TensorTraffic, APlanKeepsItsAxesAndOldOnesHaveOne) {
  auto p = sample(2, 2);
  p.micro_batch = 4, p.sequence_parallel = true;
  predict(p);
  const auto json = json_of(p);
  EXPECT_EQ(json["tensor"], 2);
  EXPECT_EQ(json["sequence_parallel"], true);
  EXPECT_EQ(json["model"]["lanes"], 4);
  const auto read = plan_from_json(to_json(p), "plan");
  EXPECT_EQ(to_json(read), to_json(p));
  EXPECT_EQ(read.topology.size(Axis::tensor), 2);
  EXPECT_TRUE(read.sequence_parallel);
  EXPECT_EQ(sharing_text(read), " in 2 replicas of 2 tensor-parallel ranks (4 lanes, sequence parallelism)");
  const auto alone = json_of(sample(2, 1));
  EXPECT_FALSE(alone.contains("tensor") || alone.contains("sequence_parallel"));
  EXPECT_EQ(plan_from_json(alone.dump(), "plan").tensor, 1);
  EXPECT_EQ(sharing_text(sample(2, 1)), "");
  auto wrong = json;
  wrong["tensor"] = 4;
  EXPECT_THROW(plan_from_json(wrong.dump(), "plan"), base::InputError);
  wrong = json;
  wrong.erase("tensor");
  EXPECT_THROW(plan_from_json(wrong.dump(), "plan"), base::InputError);
}

}  // namespace tensor_traffic_test
}  // namespace trainyard::plan

// Tests plans with expert parallelism: their files, every refusal with its remedy, what a rank holds and sends by sums
// written here, and which idle ranks are listed separately.
#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/expert_rounds.h"
#include "libtrain/plan/communication_time.h"
#include "libtrain/plan/dispatch_rounds.h"
#include "libtrain/plan/grid/groups.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/remedies.h"
#include "libtrain/plan/schedule/schedule.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace trainyard::plan {
namespace expert_parallel_test {

Plan sample(int ranks, int experts, int stages = 1) {
  Plan p;
  p.model = preset("moe-nano"), p.model.vocabulary = 257, p.model.lanes = 1, p.model.layers = 6;
  p.model.experts.count = {8}, p.model.experts.every = 2, p.model.experts.capacity_factor = "1.5";
  p.pipeline = stages, p.expert_parallel = experts;
  p.topology = topology_of(p, ranks);
  p.global_batch = 8, p.sequence = 32;
  return p;
}

std::int64_t bytes_of(const Plan& p, const std::string& category) {
  for (const auto& entry : base::memory_categories)
    if (category == entry.key) return p.memory.categories[entry.category];
  ADD_FAILURE() << category;
  return 0;
}

void expect_refused(const Plan& p, const std::string& message, const std::string& hint) {
  const auto found = decision_problems(p);
  ASSERT_EQ(found.size(), 1u) << text_of(found);
  EXPECT_EQ(found[0].message, message);
  EXPECT_EQ(found[0].hint, hint);
}

TEST(ExpertParallel, RoundTrips) {
  auto p = sample(8, 4, 2);
  predict(p);
  const auto text = to_json(p);
  EXPECT_NE(text.find("\"expert_parallel\": 4"), std::string::npos);
  const auto q = plan_from_json(text, "plan.json");
  EXPECT_EQ(to_json(q), text);
  EXPECT_EQ(q.topology.size(Axis::expert), 4);
  EXPECT_EQ(q.topology.size(Axis::expert_data), 1);
  EXPECT_EQ(q.traffic, p.traffic);
  EXPECT_TRUE(problems(q, 8).empty());
  EXPECT_EQ(sharing_text(q), " in 2 pipeline stages (1f1b) of 4 replicas, experts over 4 ranks");
  auto plain = sample(8, 1, 2);
  predict(plain);
  EXPECT_EQ(to_json(plain).find("expert_parallel"), std::string::npos) << "as in files of before";
}

// The degree alone defines the expert axes. A file that names them, or a data axis that the degree does not divide, is
// refused before anything is read along them.
TEST(ExpertParallel, FilesThatNameTheSecondReadingAreRefused) {
  auto p = sample(4, 4);
  predict(p);
  auto j = json_of(p);
  for (const auto& axes :
       {nlohmann::ordered_json::parse(R"([{"axis":"expert_data","size":2},{"axis":"expert","size":2}])"),
        nlohmann::ordered_json::parse(R"([{"axis":"data","size":2},{"axis":"expert","size":2}])")}) {
    j["topology"] = axes;
    EXPECT_THROW(plan_from_json(j.dump(), "plan.json"), base::InputError);
  }
  j["topology"] = nlohmann::ordered_json::parse(R"([{"axis":"data","size":6}])");
  EXPECT_THROW(plan_from_json(j.dump(), "plan.json"), base::InputError);
  EXPECT_THROW(Topology({{Axis::expert_data, 2}, {Axis::expert, 2}}).with_experts(4), std::invalid_argument);
  EXPECT_THROW(Topology({{Axis::data, 2}, {Axis::expert, 2}}).with_experts(2), std::invalid_argument);
}

// Rows in slots are counted in 32 bits. What is refused there is at least as large as what extents bound.
TEST(ExpertParallel, MoreRowsThanCanBeCountedAreRefused) {
  for (const bool tensor : {true, false}) {
    auto p = sample(2, tensor ? 1 : 2);
    if (tensor) p.model.lanes = 2, p.tensor = 2, p.topology = topology_of(p, 2);
    p.model.experts.count = {4096}, p.model.experts.capacity_factor = "4096",
    p.model.experts.overflow = Overflow::position;
    p.model.context = p.sequence = 1 << 20, p.micro_batch = 1, p.global_batch = 2;
    const auto found = decision_problems(p);
    ASSERT_FALSE(found.empty());
    EXPECT_NE(text_of(found).find("the most that can be counted"), std::string::npos) << text_of(found);
  }
}

TEST(ExpertParallel, IsRefusedWithWhatWouldWork) {
  expect_refused(sample(6, 4), "--expert-parallel 4 does not divide 6 data-parallel ranks", "--expert-parallel 2");
  auto p = sample(6, 3);
  expect_refused(p, "--expert-parallel 3 does not divide the 8 experts of a layer", "--expert-parallel 2");
  p = sample(6, 5);
  expect_refused(p, "--expert-parallel 5 does not divide 6 data-parallel ranks nor the 8 experts of a layer",
                 "--expert-parallel 2");
  p = sample(8, 4);
  p.model.experts.count = {2, 4, 6};
  expect_refused(p, "--expert-parallel 4 does not divide the 2 experts of a layer", "--expert-parallel 2");
  p = sample(4, 2);
  p.model = preset("gpt2-nano"), p.model.vocabulary = 257, p.model.lanes = 1;
  expect_refused(p, "--expert-parallel 2 needs experts, and the model has none: its layers are dense",
                 "--expert-parallel 1, or choose a model with experts (train --help-model)");
  p = sample(4, 2);
  p.reduction = Reduction::fast;
  expect_refused(p,
                 "--reduction fast lets the library choose the order of sums, but --expert-parallel adds experts' "
                 "gradients in the order of their micro-batches",
                 "--reduction ordered, or --expert-parallel 1");
  p = sample(4, 1);
  p.expert_overlap_chunks = 2;
  expect_refused(p, "--expert-overlap-chunks 2 needs expert parallelism, and --expert-parallel is 1",
                 "--expert-parallel 2, or leave it out");
  p = sample(4, 1);
  p.model = preset("gpt2-nano"), p.model.vocabulary = 257, p.model.lanes = 1, p.expert_overlap_chunks = 2;
  expect_refused(p, "--expert-overlap-chunks 2 needs experts, and the model has none",
                 "leave it out, or choose a model with experts (train --help-model)");
  p = sample(4, 2);
  p.expert_overlap_chunks = 3;
  expect_refused(p, "--expert-overlap-chunks 3 does not divide the 4 experts that a rank has in a layer",
                 "--expert-overlap-chunks 2");
  p.expert_overlap_chunks = 2, p.model.experts.capacity_factor = "none";
  expect_refused(
      p, "--expert-overlap-chunks 2 needs experts with a capacity: without one, tokens are sent in dispatch rounds",
      "--expert-overlap-chunks 1, or a capacity in training and in evaluation");
  p = sample(4, 1);
  p.expert_parallel = 0;
  p.topology = replicas_of(4, 1);
  expect_refused(p, "--expert-parallel 0 must lie between 1 and 131072", "give a value from 1 to 131072");
}

// Ranks with different experts hold an equal part of the flat groups of experts, and everything else as before.
TEST(ExpertParallel, ARankHoldsItsPart) {
  for (const int zero : {0, 1, 2, 3}) {
    std::int64_t before = 0;
    for (const int experts : {1, 2, 4, 8}) {
      auto p = sample(8, experts);
      p.zero = zero;
      predict(p);
      std::int64_t held = 0, others = 0;
      const FlatGroupTable table(p.part_of_rank(3), p.topology);
      for (const auto& e : table.entries()) {
        const bool of_experts = e.flat_group.name.ends_with(".experts");
        EXPECT_EQ(e.shards, of_experts ? 8 / experts : 8);
        EXPECT_EQ(e.contributions, of_experts ? experts : 1);
        (of_experts ? held : others) += e.times * static_cast<std::int64_t>(e.flat_group.parameters.size());
      }
      EXPECT_EQ(held, 3 * 8 / experts * 4) << "three layers, four tensors of an expert";
      EXPECT_EQ(p.memory.total(), memory_of_stage(p, 0).total());
      const auto bytes = p.memory.categories[base::MemoryCategory::parameters];
      if (experts == 1) before = bytes;
      // Parameters: below ZeRO 3 a rank holds a part of the experts; the shards of ZeRO 3 stay as large as before.
      if (zero < 3) EXPECT_EQ(bytes<before, experts> 1);
      else EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(before), 64.0 * 8 * 4 * 3);
      const auto names = [&](int rank) {
        std::string out;
        for (const auto& flat_group : flat_groups(p.part_of_rank(rank)))
          if (flat_group.name == "layers.01.experts") out = flat_group.parameters.front().name;
        return out;
      };
      EXPECT_EQ(names(0), "layers.01.experts.00.up.weight");
      EXPECT_EQ(names(1), fmt::format("layers.01.experts.{:02}.up.weight", experts == 1 ? 0 : 8 / experts));
      if (experts < 8) {
        EXPECT_EQ(names(experts), names(0)) << "the next group begins again";
      }
    }
  }
}

// Three layers with experts and 32 tokens in a micro-batch: 6 places of each of 8 experts make 48 rows of 64 numbers.
TEST(ExpertParallel, SendsRowsThereAndBack) {
  for (const auto recompute : {Recompute::none, Recompute::selective, Recompute::layers}) {
    auto p = sample(4, 2);
    p.model.hidden = 64, p.model.heads = p.model.kv_heads = 2;
    p.recompute = recompute;
    predict(p);
    const std::int64_t rows = 48 * 64 * 4, counts = 8 * 2 * 4, of_forward = 2 * rows + counts, layers = 3, micros = 2;
    const std::int64_t bytes = layers * micros * ((recompute == Recompute::layers ? 2 : 1) * of_forward + 2 * rows) / 2;
    ASSERT_EQ(p.traffic.size(), 1u);
    bool found = false;
    for (const auto& t : p.traffic[0].operations)
      if (name_of(t.group) == "expert") {
        found = true;
        EXPECT_EQ(t.operation, "all_to_all");
        EXPECT_EQ(t.bytes, bytes);
        EXPECT_EQ(t.calls, layers * micros * (recompute == Recompute::layers ? 8 : 5));
      }
    EXPECT_TRUE(found);
    for (const auto& t : all_validation_traffic(p, 0, 8))
      if (name_of(t.group) == "expert") {
        EXPECT_EQ(t.bytes, layers * 2 * of_forward / 2);
      }
  }
}

// With chunks the same bytes go in as many more calls. The row counts of all groups go in one call.
TEST(ExpertParallel, ChunksAreMoreCalls) {
  auto p = sample(4, 2), q = p;
  q.expert_overlap_chunks = 4;
  predict(p), predict(q);
  const auto of_experts = [](const Plan& plan) {
    for (const auto& t : plan.traffic[0].operations)
      if (name_of(t.group) == "expert") return t;
    return Traffic{};
  };
  EXPECT_EQ(of_experts(p).bytes, of_experts(q).bytes);
  EXPECT_EQ(of_experts(p).calls, 3 * 2 * 5);
  EXPECT_EQ(of_experts(q).calls, 3 * 2 * (4 * 4 + 1));
  EXPECT_EQ(plan_from_json(to_json(q), "plan.json").expert_overlap_chunks, 4);
}

// Nine micro-batches over eight ranks, four with different experts. In the last accumulation step one rank works, three
// work for it, and the other four idle.
TEST(ExpertParallel, RanksThatSendTheSameAreTold) {
  auto p = sample(8, 4);
  p.global_batch = 9;
  predict(p);
  const auto range = [&](std::size_t i) { return std::pair(p.traffic.at(i).first_rank, p.traffic.at(i).last_rank); };
  ASSERT_EQ(p.traffic.size(), 3u);
  EXPECT_EQ(range(0), std::pair(0, 0));
  EXPECT_EQ(range(1), std::pair(1, 3));
  EXPECT_EQ(range(2), std::pair(4, 7));
  for (const auto& ranks : p.traffic)
    for (int rank = ranks.first_rank; rank <= ranks.last_rank; ++rank)
      EXPECT_EQ(added_up(all_step_calls(p, rank)), ranks.operations) << rank;
  const auto sent = [&](std::size_t i, const std::string& group, const std::string& operation) {
    std::int64_t bytes = 0;
    for (const auto& t : p.traffic.at(i).operations)
      if (name_of(t.group) == group && t.operation == operation) bytes += t.bytes;
    return bytes;
  };
  // An idle rank sends no gradients of its own, only those it made for others. Rows go both ways nevertheless.
  EXPECT_GT(sent(0, "data", "ordered_reduce_scatter"), sent(1, "data", "ordered_reduce_scatter"));
  EXPECT_EQ(sent(0, "expert_data", "ordered_reduce_scatter"), sent(1, "expert_data", "ordered_reduce_scatter"));
  EXPECT_GT(sent(1, "expert_data", "ordered_reduce_scatter"), sent(2, "expert_data", "ordered_reduce_scatter"));
  for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(sent(i, "expert", "all_to_all"), sent(0, "expert", "all_to_all"));
}

// With one more micro-batch, two ranks work, each of another group. Working ranks and other ranks are listed once.
TEST(ExpertParallel, RanksOfManyGroupsAreToldOnce) {
  auto p = sample(8, 4);
  p.global_batch = 10;
  predict(p);
  ASSERT_EQ(p.traffic.size(), 2u);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(p.traffic[0].has(rank), rank % 4 == 0) << rank;
    EXPECT_EQ(p.traffic[1].has(rank), rank % 4 != 0) << rank;
    EXPECT_EQ(added_up(all_step_calls(p, rank)), p.traffic[rank % 4 == 0 ? 0 : 1].operations) << rank;
  }
  EXPECT_EQ(plan_from_json(to_json(p), "plan.json").traffic, p.traffic);
  for (const int experts : {2, 8}) {
    auto many = sample(512, experts, 2);
    many.global_batch = 256 + 77;
    predict(many);
    EXPECT_LE(many.traffic.size(), 8u) << "four kinds of two stages";
    std::vector<int> told(512, 0);
    for (int rank = 0; rank < 512; ++rank)
      for (const auto& ranks : many.traffic)
        if (ranks.has(rank)) {
          ++told[static_cast<std::size_t>(rank)];
          EXPECT_EQ(added_up(all_step_calls(many, rank)), ranks.operations) << rank;
        }
    EXPECT_EQ(told, std::vector<int>(512, 1));
  }
}

// A file with other runs of ranks than the world has is refused.
TEST(ExpertParallel, RunsBeyondTheWorldAreRefused) {
  auto p = sample(8, 4);
  p.global_batch = 10;
  predict(p);
  for (const auto& [key, value] : {std::pair{"runs", 3}, {"runs", 1}, {"stride", 0}, {"stride", 9}}) {
    auto j = json_of(p);
    j["predicted"]["step_traffic"][0][key] = value;
    EXPECT_THROW(plan_from_json(j.dump(), "plan.json"), base::InputError) << key << " " << value;
  }
}

// A rank without a micro-batch has a slot for what other ranks send it.
TEST(ExpertParallel, IdleRanksHaveSlots) {
  auto p = sample(3, 1);
  p.global_batch = 4;
  for (const auto& action : actions(p, 2))
    if (action.kind == Action::Kind::forward || action.kind == Action::Kind::backward) {
      EXPECT_EQ(action.slot, 0);
      EXPECT_EQ(action.micro, action.round == 0 ? 2 : -1);
    }
}

TEST(ExpertParallel, GroupsAreMeasured) {
  std::map<std::string, std::vector<std::vector<int>>> groups;
  for (const auto& family : groups_of(sample(8, 2, 2).topology)) groups[family.name] = family.groups;
  EXPECT_EQ(groups.at("data"), (std::vector<std::vector<int>>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(groups.at("expert"), (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups.at("expert_data"), (std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
}

// A step of 8 ranks, one accumulation step, three layers of 8 experts with 2 * 32 * 128 + 128 + 32 parameters each.
// Sums: this rank's share of all experts. Buffers: two, for one source's gradients of the rank's own experts.
TEST(ExpertParallel, GradientsShrinkWithTheDegree) {
  const std::int64_t expert = 2 * 32 * 128 + 128 + 32, padded = (expert + 63) / 64 * 64, layers = 3;
  for (const int zero : {0, 1, 2, 3}) {
    auto alone = sample(8, 1);
    alone.zero = zero;
    predict(alone);
    for (const int degree : {2, 4, 8}) {
      auto p = sample(8, degree);
      p.zero = zero;
      predict(p);
      const std::int64_t held = 8 / degree * padded;  // of a layer
      const auto gradients = bytes_of(p, "gradients") - bytes_of(alone, "gradients"),
                 buffers = bytes_of(p, "unit_gradients") - bytes_of(alone, "unit_gradients");
      const std::int64_t kept = zero == 0 ? held : padded, kept_alone = zero < 2 ? 8 * padded : padded;
      EXPECT_EQ(gradients, 4 * layers * (kept - kept_alone)) << zero << ", " << degree;
      EXPECT_EQ(buffers, 4 * 2 * (held - (zero == 1 ? 0 : 8 * padded))) << zero << ", " << degree;
    }
  }
}

// A local accumulation group is kept for every source.
TEST(ExpertParallel, LocalAccumulationKeepsTheGroupOfEachSource) {
  for (const int degree : {2, 4}) {
    auto p = sample(4, degree);
    p.zero = 3, p.local_accumulation = 2;
    auto alone = sample(4, 1);
    alone.zero = 3, alone.local_accumulation = 2;
    predict(p), predict(alone);
    EXPECT_EQ(bytes_of(p, "gradients"), bytes_of(alone, "gradients")) << "degree times a degree-th";
  }
}

// 51 layers of 512 experts: 16 bytes a parameter are more than 512 devices of 40 GB have together. Each needs its share
// of all weights, gradients and states.
TEST(ExpertParallel, ThreeAndAHalfTrillionNeedTheHost) {
  Plan p;
  p.model = preset("gpt2");
  p.model.layers = 51, p.model.hidden = 4096, p.model.heads = p.model.kv_heads = 32, p.model.ffn = 16384;
  p.model.context = p.sequence = 2048, p.model.vocabulary = 50257, p.model.lanes = 1;
  p.model.experts.count = {512};
  p.expert_parallel = 512, p.zero = 3, p.global_batch = 512;
  p.dtype = base::DType::bf16, p.device = base::DeviceKind::cuda, p.recompute = Recompute::layers;
  p.topology = topology_of(p, 512);
  p.device_memory = 40'000'000'000;
  predict(p);
  const std::int64_t h = 4096, expert = 8 * h * h + 5 * h, layer = 4 * h * h + 4 * h + 4 * h + 512 * h;
  EXPECT_EQ(p.parameters, 51 * (layer + 512 * expert) + (50257 + 2048) * h + 2 * h);
  const auto share = static_cast<double>(p.parameters) / 512;
  const auto near = [&](const std::string& category, double bytes) {
    EXPECT_NEAR(static_cast<double>(bytes_of(p, category)) / (bytes * share), 1, 0.001) << category;
  };
  near("parameters", 2);  // 13.7 GB
  near("gradients", 4);
  near("optimizer", 12);
  const auto more = static_cast<double>(p.memory.total() - p.device_memory);
  EXPECT_NEAR(more, 18 * share - 40e9, 0.1 * 40e9 + 4e9) << "beside these a buffer of two layers, and activations";
  p.expert_parallel = 256, p.gathered_layers = 1, p.topology = topology_of(p, 512);
  predict(p);
  p.device_memory = 1;  // so that nothing fits, and every remedy that comes nearer is listed
  const auto hint = remedies(p);
  const auto first = hint.find("--tensor-parallel 2 would need");
  ASSERT_NE(first, std::string::npos) << hint;
  EXPECT_EQ(hint.find("--tensor-parallel 2 would need", first + 1), std::string::npos) << hint;
}

// Expert parallelism is also tried together with other remedies.
TEST(ExpertParallel, IsARemedyTogetherWithOthers) {
  Plan p;
  p.model = preset("nlg-350m-moe-128");
  p.model.vocabulary = 50257, p.model.lanes = 1;
  p.zero = 3, p.global_batch = 64, p.sequence = 2048;
  p.topology = topology_of(p, 64);
  auto both = p;
  both.recompute = Recompute::layers, both.expert_parallel = 64, both.topology = topology_of(both, 64);
  predict(p), predict(both);
  p.device_memory = both.memory.total();
  EXPECT_EQ(remedies(p), fmt::format("--recompute full --expert-parallel 64 would need {} and fits; none of these "
                                     "alone is enough",
                                     base::size_text(both.memory.total())));
}

// A model that consists mostly of experts fits with expert parallelism.
TEST(ExpertParallel, IsARemedy) {
  auto p = sample(8, 1);
  p.model.experts.ffn = 4096, p.zero = 3;
  predict(p);
  auto four = p;
  four.expert_parallel = 4, four.topology = topology_of(four, 8);
  p.zero = four.zero = 0;
  predict(p), predict(four);
  p.device_memory = four.memory.total();
  EXPECT_NE(remedies(p).find("--expert-parallel 4 would need"), std::string::npos) << remedies(p);
}

Plan dropless(int ranks, int experts) {
  auto p = sample(ranks, experts);
  p.model.experts.capacity_factor = "none", p.model.experts.top_k = 2;
  return p;
}

// 32 tokens in a micro-batch. Between forward and backward a rank keeps 4 * 32 rows of its experts and 2 * 32 results.
// Slots for all tokens of each of eight experts would be 256 rows.
TEST(ExpertParallel, WithoutACapacityABufferIsHeld) {
  auto p = dropless(4, 4);
  predict(p);
  const auto held = [](const Plan& plan) {
    const auto part = plan.part_of_stage(0);
    return activation_bytes(part, plan.micro(), Pass::train);
  };
  const auto of_row = [&](const Plan& plan) { return plan.model.hidden * 4; };
  auto twice = p;
  twice.expert_capacity_buffer = 64;
  EXPECT_TRUE(decision_problems(twice).empty()) << text_of(decision_problems(twice));
  const auto width = p.model.experts.ffn > 0 ? p.model.experts.ffn : p.model.ffn;
  const std::int64_t inner = p.model.activation == Activation::swiglu ? 3 : 2;
  EXPECT_EQ(held(twice) - held(p), 3 * 4 * 32 * (of_row(p) + inner * width * 4)) << "three layers, 32 rows of 4 ranks";
  auto slots = p;  // a capacity of all tokens has room for these rows
  slots.model.experts.capacity_factor = "1000";
  EXPECT_LT(held(p), held(slots));
  EXPECT_LT(held(twice), held(slots) + 3 * 64 * of_row(p));
  const auto text = to_json(twice);
  EXPECT_NE(text.find("\"expert_buffer\": 64"), std::string::npos);
  EXPECT_EQ(to_json(p).find("expert_buffer"), std::string::npos);
  EXPECT_EQ(plan_from_json(to_json([&] {
                             predict(twice);
                             return twice;
                           }()),
                           "plan.json")
                .expert_capacity_buffer,
            64);
}

TEST(ExpertParallel, BuffersThatDoNothingAreRefused) {
  auto p = dropless(4, 4);
  p.expert_capacity_buffer = 31;
  expect_refused(p,
                 "--expert-capacity-buffer 31 is less than one expert may get: a micro-batch has 32 tokens "
                 "(--micro-batch 1 of --sequence 32)",
                 "--expert-capacity-buffer 32, or a smaller --micro-batch");
  p.expert_capacity_buffer = 65;
  expect_refused(p, "--expert-capacity-buffer 65 is more than a rank can have for another rank, 64",
                 "--expert-capacity-buffer 64 at most");
  p = sample(4, 4);
  p.expert_capacity_buffer = 32;
  expect_refused(p,
                 "--expert-capacity-buffer 32 is for experts without a capacity, and the experts of this model have "
                 "one, in training and in evaluation",
                 "leave it out, or choose a model whose experts-capacity-factor is none");
  p.model.experts.evaluation_capacity_factor = "none", p.model.experts.top_k = 2;
  EXPECT_TRUE(decision_problems(p).empty());
  p = dropless(4, 1);
  p.expert_capacity_buffer = 32;
  expect_refused(p, "--expert-capacity-buffer 32 needs expert parallelism, and --expert-parallel is 1",
                 "leave it out, or --expert-parallel 2");
  p = dropless(4, 1);
  p.model = preset("gpt2-nano"), p.model.vocabulary = 257, p.model.lanes = 1, p.expert_capacity_buffer = 32;
  expect_refused(p, "--expert-capacity-buffer 32 needs experts, and the model has none",
                 "leave it out, or choose a model with experts (train --help-model)");
}

// A plan announces one round in each pass. A further round costs rows both ways, and in forward the groups. Backward of
// several rounds sends rows and groups again for each round of each rank with which it shares the experts.
TEST(ExpertParallel, FurtherRoundsCostTheirRows) {
  auto p = dropless(4, 2);
  predict(p);
  // Of 64 rows 32 go to each of two ranks in an even load: a buffer of 40.
  const std::int64_t rows = 2 * 40 * p.model.hidden * 4 / 2, groups = 8 * 2 * 4 / 2, layers = 3, micros = 2;
  for (const auto& t : p.traffic[0].operations) {
    if (name_of(t.group) == "expert" && t.operation == "all_to_all") {
      EXPECT_EQ(t.bytes, layers * micros * (4 * rows + groups));
    }
    if (name_of(t.group) == "expert" && t.operation == "all_reduce") {
      EXPECT_EQ(t.bytes, layers * micros * 4);
    }
  }
  auto same = p;
  same.expert_capacity_buffer = 40;
  predict(same);
  EXPECT_EQ(same.memory, p.memory);
  EXPECT_EQ(same.traffic, p.traffic);
  const std::vector<FurtherRounds> made{{5, 0, 0}, {0, 0, 0}, {1, 3, 4}};
  const auto further = added_up(further_round_calls(p, made));
  ASSERT_EQ(further.size(), 1u);
  EXPECT_EQ(further[0].bytes, 6 * (2 * rows + groups) + 3 * 2 * rows + 4 * (rows + groups));
  EXPECT_EQ(rounds_text(p, base::Sizes::exact),
            fmt::format("  experts without a capacity get their tokens in rounds of 40 tokens a rank:\n    even load: "
                        "1 round\n    all tokens choose the same experts: 2 rounds, which send {} more a step,\n    "
                        "and one rank's experts compute 128 tokens in a layer\n",
                        base::size_text(layers * micros * ((2 * rows + groups) + 3 * 2 * rows + 4 * (rows + groups)),
                                        base::Sizes::exact)));
}

}  // namespace expert_parallel_test
}  // namespace trainyard::plan

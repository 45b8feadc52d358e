// Tests plans with pipeline stages: their files, every refusal with its hint, remedies, micro-batches in flight.
#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/schedule/schedule.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::plan {
namespace plan_stages_test {

Plan sample(int ranks, int stages, int tensor = 1) {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.vocabulary = 257, p.model.lanes = 4, p.model.layers = 6, p.model.heads = p.model.kv_heads = 4;
  p.pipeline = stages, p.tensor = tensor;
  p.topology = replicas_of(ranks, tensor, ranks % (stages * tensor) == 0 ? stages : 1);
  p.global_batch = 8, p.sequence = 32;
  return p;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

void expect_unreadable(const std::string& text, const std::string& message) {
  try {
    plan_from_json(text, "plan.json");
    ADD_FAILURE() << "was read, expected: " << message;
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("partition-model"), std::string::npos) << e.hint();
  }
}

void expect_refused(const Plan& p, const std::string& message, const std::string& hint) {
  const auto found = decision_problems(p);
  ASSERT_EQ(found.size(), 1u) << text_of(found);
  EXPECT_EQ(found[0].message, message);
  EXPECT_EQ(found[0].hint, hint);
}

TEST(PlanOfStages, RoundTrips) {
  auto p = sample(16, 4, 2);
  p.pipeline_schedule = PipelineSchedule::interleaved, p.virtual_stages = 2, p.partition = "0,1,2,3,4,5,6,7";
  predict(p);
  const auto text = to_json(p);
  const auto q = plan_from_json(text, "plan.json");
  EXPECT_EQ(to_json(q), text);
  EXPECT_EQ(q.stages, p.stages);
  EXPECT_EQ(q.stage_memory, p.stage_memory);
  EXPECT_EQ(q.stage_memory.size(), 4u);
  EXPECT_EQ(q.traffic, p.traffic);
  EXPECT_EQ(q.traffic.size(), 4u);
  EXPECT_TRUE(problems(q, 16).empty());
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_LE(p.stage_memory[static_cast<std::size_t>(stage)].total(), p.memory.total());
}

TEST(PlanOfStages, WhatDoesNotFollowFromItsDecisionsIsRefused) {
  auto p = sample(2, 2);
  predict(p);
  const auto text = to_json(p);
  ASSERT_EQ(p.stages.boundaries, (Boundaries{0, 4, 8}));
  expect_unreadable(replaced(text, "    4,\n    8\n", "    5,\n    8\n"),
                    "the stage boundaries are [0, 5, 8], --partition flops of 2 parts makes [0, 4, 8]");
  expect_unreadable(replaced(text, "    4,\n    8\n", "    -4,\n    8\n"), "'stage_boundaries' must be whole numbers");
  auto j = json_of(p);
  j["partition"] = "flosp";
  expect_unreadable(j.dump(), "--partition flosp is not known");
  EXPECT_EQ(json_of(p)["recompute"], "none");
  p.recompute = Recompute::layers;
  EXPECT_EQ(json_of(p)["recompute"], "layers") << "as plans of older programs have it";
  p.recompute = {};
  for (const char* key : {"partition", "schedule", "reduction", "dtype", "gradient_dtype", "device"}) {
    auto damaged = json_of(p);
    damaged[key] = "xyzzy-plugh";
    try {
      plan_from_json(damaged.dump(), "plan.json");
      ADD_FAILURE() << key;
    } catch (const base::InputError& e) {
      EXPECT_TRUE(e.hint().starts_with("make ")) << key << ": " << e.hint();
      EXPECT_FALSE(e.hint().ends_with(": ")) << key << ": " << e.hint();
    }
  }
}

TEST(PlanOfStages, EachStageHasItsBytes) {
  auto p = sample(2, 2);
  predict(p);
  auto j = json_of(p);
  j["predicted"]["stage_bytes"].erase(1);
  expect_unreadable(j.dump(), "'stage_bytes' has 1 stages, 'pipeline' says 2");
  j["predicted"].erase("stage_bytes");
  EXPECT_THROW(plan_from_json(j.dump(), "plan.json"), base::InputError);
  auto one = sample(2, 1);
  predict(one);
  EXPECT_FALSE(json_of(one)["predicted"].contains("stage_bytes"));
}

// A file that partition-model wrote before stages existed.
TEST(PlanOfStages, FilesFromBeforeThemAreRead) {
  auto p = sample(2, 1);
  predict(p);
  auto old = json_of(p);
  old["stage_boundaries"] = {0, p.model.layers};
  for (const char* key : {"pipeline", "virtual_stages", "partition"}) EXPECT_FALSE(old.contains(key)) << key;
  const auto q = plan_from_json(old.dump(), "plan.json");
  EXPECT_EQ(q.pipeline, 1);
  EXPECT_EQ(q.stages, p.stages);
  EXPECT_EQ(q.memory, p.memory);
  old["stage_boundaries"] = {0, p.model.layers - 1};
  expect_unreadable(old.dump(), "the stage boundaries are [0, 5]");
  auto two = sample(2, 2);
  predict(two);
  auto j = json_of(two);
  j["stage_boundaries"] = {0, p.model.layers};
  expect_unreadable(j.dump(), "the stage boundaries are [0, 6]");
}

TEST(StageProblems, DegreesThatRanksOrItemsDoNotAllow) {
  for (const int stages : {1, 2, 4, 8}) EXPECT_TRUE(decision_problems(sample(8, stages)).empty()) << stages;
  expect_refused(sample(8, 3), "--pipeline-parallel 3 does not divide 8 ranks", "--pipeline-parallel 2, or 9 ranks");
  expect_refused(sample(8, 3, 2), "--pipeline-parallel 3 does not divide 8 ranks",
                 "--pipeline-parallel 2, or 12 ranks");  // two tensor-parallel ranks do
  auto p = sample(16, 16);
  expect_refused(p, "--pipeline-parallel 16: more stages than the model has items, 8 (embedding, 6 layers, head)",
                 "--pipeline-parallel 8 at most");
  p = sample(4, 4);
  p.pipeline_schedule = PipelineSchedule::interleaved, p.virtual_stages = 3;
  expect_refused(p,
                 "--pipeline-parallel 4 with --virtual-stages 3: more virtual stages than the model has items, 8 "
                 "(embedding, 6 layers, head)",
                 "--virtual-stages 2");
  p = sample(4, 2);
  p.topology = replicas_of(4, 1, 4);
  expect_refused(p, "the topology has 4 stages, but --pipeline-parallel is 2", "--pipeline-parallel 4");
  p = sample(4, 2);
  p.pipeline = 0;
  EXPECT_EQ(decision_problems(p).at(0).message, "--pipeline-parallel 0 must lie between 1 and 4096");
  p = sample(4, 2, 4);
  expect_refused(p, "--tensor-parallel 4 does not divide the 2 ranks of a stage", "--tensor-parallel 2, or 8 ranks");
}

TEST(StageProblems, SchedulesChunksAndPartitions) {
  auto p = sample(2, 2);
  p.virtual_stages = 2;
  expect_refused(p,
                 "--virtual-stages 2 needs --pipeline-schedule interleaved: other schedules have one virtual stage a "
                 "pipeline stage",
                 "--pipeline-schedule interleaved, or --virtual-stages 1");
  p = sample(2, 1);
  p.pipeline_schedule = PipelineSchedule::interleaved;
  expect_refused(p, "--pipeline-schedule interleaved needs stages, and --pipeline-parallel is 1",
                 "--pipeline-parallel 2, or leave the schedule out");
  p.pipeline_schedule = PipelineSchedule::zero_bubble;
  expect_refused(p, "--pipeline-schedule zero-bubble needs stages, and --pipeline-parallel is 1",
                 "--pipeline-parallel 2, or leave the schedule out");
  p = sample(2, 2);
  p.pipeline_schedule = PipelineSchedule::zero_bubble;
  EXPECT_TRUE(decision_problems(p).empty());
  p.recompute = Recompute::selective;
  expect_refused(p,
                 "--pipeline-schedule zero-bubble computes weight gradients later, from activations that --recompute "
                 "selective does not keep",
                 "--recompute none, or --pipeline-schedule 1f1b");
  p = sample(2, 1);
  p.pipeline_schedule = PipelineSchedule::naive;
  expect_refused(p, "--pipeline-schedule naive needs stages, and --pipeline-parallel is 1",
                 "--pipeline-parallel 2, or leave the schedule out");
  p.pipeline_schedule = PipelineSchedule::gpipe;  // its order differs even then: all forwards first
  EXPECT_TRUE(decision_problems(p).empty());
  for (const std::string partition : {"uniform", "parameters", "type:layers", "0", "nonsense"}) {
    p = sample(2, 1);
    p.partition = partition;
    expect_refused(p, "--partition " + partition + " says where stages begin, and --pipeline-parallel is 1",
                   "--pipeline-parallel 2, or leave the partition out");
  }
  p.partition = "0,3,6";
  expect_refused(p, "--partition 0,3,6 says where stages begin, and --pipeline-parallel is 1",
                 "--pipeline-parallel 3, or leave the partition out");
  p = sample(2, 2);
  p.partition = "0";
  EXPECT_EQ(decision_problems(p).at(0).message, "--partition 0: 1 number for 2 parts");
  p.partition = "0,3,6";
  expect_refused(p, "--partition 0,3,6: 3 numbers for 2 parts",
                 "the first item of each part, ascending from 0: 0,4, for example");
  p.partition = "uniformly";
  EXPECT_EQ(decision_problems(p).at(0).message, "--partition uniformly is not known");
  EXPECT_NE(decision_problems(p).at(0).hint.find("uniform"), std::string::npos);
  p.partition = "type:nothing";
  EXPECT_EQ(decision_problems(p).at(0).message, "--partition type:nothing finds none of the model's items");
  for (const auto schedule : {PipelineSchedule::naive, PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    p = sample(2, 2);
    p.pipeline_schedule = schedule;
    EXPECT_TRUE(decision_problems(p).empty());
  }
}

TEST(StageProblems, ReplicasAreThoseOfAStage) {
  auto p = sample(32, 4);
  EXPECT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
  p.global_batch = 4;
  expect_refused(p,
                 "32 ranks in 8 replicas, but a step has only 4 groups of micro-batches: some ranks would have no work",
                 "raise --global-batch to 8, lower --micro-batch or --local-accumulation, or use fewer ranks");
}

TEST(StageRemedies, StagesAreDoubledUntilTheyFit) {
  auto p = sample(64, 1);
  p.model = preset("llama-8b"), p.model.vocabulary = 128256, p.model.lanes = 1;
  p.global_batch = 64, p.sequence = 8192, p.zero = 0, p.recompute = Recompute::layers, p.dtype = base::DType::bf16;
  const auto need = [&](int stages) {
    auto other = p;
    other.pipeline = stages, other.topology = replicas_of(64, 1, stages);
    predict(other);
    return other.memory.total();
  };
  const auto tried = [&](std::int64_t bytes) {
    auto limited = p;
    limited.device_memory = bytes;
    predict(limited);
    return memory_problems(limited).at(0).hint;
  };
  predict(p);
  ASSERT_LT(need(4), need(2)) << "else this model is no example";
  ASSERT_LT(need(4), p.memory.total());
  EXPECT_NE(tried(need(4)).find("--pipeline-parallel 4 would need " + base::size_text(need(4)) + " and fits"),
            std::string::npos)
      << tried(need(4));
}

// A count that saturates with the number of micro-batches is computed from some of them.
TEST(Slots, AreThoseOfTheListsOfAllMicroBatches) {
  for (const auto schedule : {PipelineSchedule::naive, PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                              PipelineSchedule::interleaved, PipelineSchedule::zero_bubble})
    for (int stages = 1; stages <= 4; ++stages)
      for (int chunks = 1; chunks <= 2; ++chunks) {
        const bool interleaved = schedule == PipelineSchedule::interleaved;
        if ((chunks > 1) != interleaved || (interleaved && stages == 1)) continue;
        for (const std::int64_t micros : {1, 2, 3, 4, 5, 7, 8, 12, 40}) {
          auto p = sample(stages, stages);
          p.pipeline_schedule = schedule, p.virtual_stages = chunks, p.global_batch = micros;
          predict(p);
          for (int stage = 0; stage < stages; ++stage)
            EXPECT_EQ(slots_of_stage(p, stage), slots_of(actions(p, stage), chunks))
                << stages << " stages of " << chunks << ", " << micros << " micro-batches, stage " << stage;
        }
      }
}

}  // namespace plan_stages_test
}  // namespace trainyard::plan

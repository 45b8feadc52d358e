// Tests the tables of stages: what each stage has, which ranks it has, and how long it waits.
#include "libtrain/plan/stage_table.h"

#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/schedule/partition.h"
#include "libtrain/plan/spec/presets.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

namespace trainyard::plan {
namespace stage_table_test {

Plan sample(int stages, std::int64_t micros, const std::string& partition = "type:layers") {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.vocabulary = 257, p.model.lanes = 1, p.model.layers = 8;
  p.topology = replicas_of(stages, 1, stages), p.pipeline = stages, p.partition = partition;
  p.global_batch = micros, p.sequence = 32;
  predict(p);
  return p;
}

// The idle fraction of the literature, for stages that are all alike.
double bubble(double stages, double micros) { return (stages - 1) / (micros + stages - 1); }

TEST(StageTable, RowsAreTheWholeModelOnce) {
  for (const char* partition : {"flops", "parameters", "uniform", "0,2,3,9"}) {
    const auto p = sample(4, 8, partition);
    const auto rows = stage_rows(p);
    ASSERT_EQ(rows.size(), 4u);
    double flops = 0;
    std::int64_t parameters = 0;
    for (const auto& row : rows) flops += row.flops, parameters += row.parameters;
    EXPECT_NEAR(flops, 1, 1e-12);
    EXPECT_EQ(parameters, p.parameters + std::int64_t{257} * p.model.hidden) << "the tied table stands in two stages";
    EXPECT_EQ(rows.front().memory, p.stage_memory.front());
  }
  const auto rows = stage_rows(sample(4, 8, "0,2,3,9"));
  EXPECT_EQ(rows[0].items, "embedding, layers.00");
  EXPECT_EQ(rows[1].items, "layers.01");
  EXPECT_EQ(rows[2].items, "layers.02-07");
  EXPECT_EQ(rows[3].items, "head");
  for (int s = 0; s < 4; ++s) EXPECT_EQ(rows[static_cast<std::size_t>(s)].slots, std::vector{4 - s});
}

TEST(StageTable, ChunksOfAStageAreNamedEach) {
  auto p = sample(2, 8);
  p.pipeline_schedule = PipelineSchedule::interleaved, p.virtual_stages = 2, p.partition = "0,3,5,7";
  predict(p);
  const auto rows = stage_rows(p);
  EXPECT_EQ(rows[0].items, "embedding, layers.00-01 + layers.04-05");
  EXPECT_EQ(rows[1].items, "layers.02-03 + layers.06-07, head");
  EXPECT_EQ(rows[0].slots.size(), 2u);
}

TEST(StageTable, MapsTheThirtyTwoWorkersOfTheLiterature) {
  auto p = sample(4, 8);
  p.model.lanes = 4, p.tensor = 4, p.topology = replicas_of(32, 4, 4);
  predict(p);
  EXPECT_NE(stages_text(p, base::Sizes::rounded)
                .find("  ranks    replica 0  replica 1\n"
                      "  stage 0  0-3        4-7\n"
                      "  stage 1  8-11       12-15\n"
                      "  stage 2  16-19      20-23\n"
                      "  stage 3  24-27      28-31\n"),
            std::string::npos)
      << stages_text(p, base::Sizes::rounded);
  p.tensor = 1, p.topology = replicas_of(32, 1, 4);
  predict(p);
  EXPECT_NE(stages_text(p, base::Sizes::rounded)
                .find("  ranks    replica 0  replica 1  ...  replica 7\n  stage 0  0          1          ...  7\n"),
            std::string::npos)
      << stages_text(p, base::Sizes::rounded);
}

TEST(StageTable, MarksWhatNeedsMost) {
  auto text = stages_text(sample(4, 8, "0,2,3,9"), base::Sizes::rounded);
  EXPECT_EQ(text.find("most "), text.find("most memory and FLOPs\n  3 ")) << text;
  text = stages_text(sample(4, 8, "0,3,5,7"), base::Sizes::rounded);
  EXPECT_NE(text.find("most memory\n  1 "), std::string::npos) << text;
  EXPECT_NE(text.find("most FLOPs\n"), std::string::npos) << text;
  EXPECT_EQ(whose_memory(sample(4, 8, "0,3,5,7")), "a rank of stage 0, which needs most");
  EXPECT_EQ(whose_memory(sample(4, 8, "0,2,3,9")), "a rank of stage 2, which needs most");
  EXPECT_EQ(stages_text(sample(1, 8, "flops"), base::Sizes::rounded), "");
}

TEST(StageTable, JsonHasTheTotalOfARank) {
  for (const int stages : {1, 4}) {
    const auto p = sample(stages, 8, "flops");
    const auto json = report_json(p);
    EXPECT_EQ(json.at("rank_total_bytes"), p.memory.total());
    EXPECT_FALSE(json.contains("rank_host_bytes"));
    EXPECT_EQ(json.contains("stages"), stages > 1);
    auto whole = json_of(p);
    whole.update(json);
    EXPECT_EQ(to_json(plan_from_json(whole.dump(), "test")), to_json(p));
  }
  auto p = sample(1, 8, "flops");
  p.device = base::DeviceKind::cuda, p.zero = 1, p.offload.optimizer = {Place::host, 1};
  predict(p);
  ASSERT_GT(p.memory.on_host, 0);
  EXPECT_EQ(report_json(p).at("rank_host_bytes"), p.memory.on_host);
}

// All parts are alike, except for the little work of the embedding and a small head.
TEST(Idle, IsThatOfTheScheduleAndOfImbalance) {
  auto p = sample(4, 8);
  p.model.vocabulary = 1, p.model.hidden = p.model.ffn = 1024, p.model.heads = p.model.kv_heads = 16;
  for (const std::int64_t micros : {4, 8, 32}) {
    p.global_batch = micros;
    predict(p);
    const auto idle = idle_of(p);
    ASSERT_TRUE(idle);
    EXPECT_NEAR(idle->fraction, bubble(4, static_cast<double>(micros)), 0.01) << micros;
    EXPECT_NEAR(idle->of_imbalance, 0, 0.01) << micros;
  }
  // Qi et al. (2023): (p - 1) (F + B - W) of a step, where F = B = W except for the scores of attention.
  p.pipeline_schedule = PipelineSchedule::zero_bubble;
  for (const std::int64_t micros : {8, 32}) {
    p.global_batch = micros;
    predict(p);
    EXPECT_NEAR(idle_of(p)->fraction, 3.0 / (3 * static_cast<double>(micros) + 3), 0.02) << micros;
  }
  p.pipeline_schedule = PipelineSchedule::naive;
  EXPECT_NEAR(idle_of(p)->fraction, 0.75, 1e-12);
  EXPECT_NE(idle_text(p).find("--pipeline-schedule 1f1b"), std::string::npos) << idle_text(p);
  EXPECT_FALSE(idle_of(sample(1, 8, "flops")));
}

TEST(Idle, GoesOnBeyondWhatIsSimulated) {
  const auto schedule_part = [](std::int64_t micros) {
    const auto idle = idle_of(sample(2, micros, "0,3"));
    return (idle->fraction - idle->of_imbalance) * static_cast<double>(micros);
  };
  EXPECT_NEAR(schedule_part(60'000), schedule_part(600'000), 1e-3) << "the rest is what beginning and end take";
  EXPECT_GT(schedule_part(60'000), 0.1);
}

// Advice that would take seconds to compute is left out.
TEST(Idle, AdvisesWhereThatTakesAMoment) {
  EXPECT_NE(idle_text(sample(2, 100, "0,3")).find(" makes it "), std::string::npos);
  EXPECT_EQ(idle_text(sample(2, 100'000, "0,3")).find(" makes it "), std::string::npos);
}

std::string advice(const std::string& flags, const Plan& changed) {
  return fmt::format("{} makes it {:.0f} %", flags, 100 * idle_of(changed)->fraction);
}

TEST(Idle, SaysWhatMakesItSmallerAndHowMuch) {
  const auto few = sample(4, 4, "flops");
  auto more = few, chunks = few;
  more.global_batch = 8, chunks.pipeline_schedule = PipelineSchedule::interleaved, chunks.virtual_stages = 2;
  predict(more), predict(chunks);
  auto text = idle_text(few);
  EXPECT_NE(text.find(": " + advice("--global-batch 8", more)), std::string::npos) << text;
  auto even = sample(2, 4, "type:layers");
  even.model.vocabulary = 1;
  predict(even);
  chunks = even, chunks.pipeline_schedule = PipelineSchedule::interleaved, chunks.virtual_stages = 2;
  predict(chunks);
  text = idle_text(even);
  EXPECT_NE(text.find(advice("--pipeline-schedule interleaved --virtual-stages 2", chunks)), std::string::npos) << text;
  auto listed = sample(4, 8, "0,1,2,3"), by_flops = sample(4, 8, "flops");
  text = idle_text(listed);
  EXPECT_NE(text.find("remain with any number of micro-batches, because stages differ in work"), std::string::npos)
      << text;
  EXPECT_NE(text.find(advice("--partition flops", by_flops)), std::string::npos) << text;
  EXPECT_EQ(text.find("--virtual-stages"), std::string::npos) << "the list is of as many parts as there are: " << text;
}

TEST(Idle, ChunksThatAreOneAreNone) {
  auto p = sample(2, 4);
  p.pipeline_schedule = PipelineSchedule::interleaved;
  predict(p);
  EXPECT_NE(idle_text(p).find("; interleaved with --virtual-stages 1 is the same as 1f1b"), std::string::npos)
      << idle_text(p);
  p.pipeline_schedule = PipelineSchedule::one_f_one_b;
  EXPECT_EQ(idle_text(p).find("is the same as 1f1b"), std::string::npos) << idle_text(p);
}

// A head as heavy as several layers is the stage that all others wait for. Virtual stages do not change that.
TEST(Idle, AdvisesNothingThatMakesItWorse) {
  auto p = sample(4, 32, "flops");
  p.model = preset("gpt2"), p.model.vocabulary = 50257, p.model.lanes = 4, p.sequence = 256;
  predict(p);
  auto chunks = p;
  chunks.pipeline_schedule = PipelineSchedule::interleaved, chunks.virtual_stages = 2;
  predict(chunks);
  ASSERT_GT(idle_of(chunks)->fraction, idle_of(p)->fraction + 0.1);
  EXPECT_EQ(idle_text(p).find("interleaved"), std::string::npos) << idle_text(p);
  const auto back = advice("--pipeline-schedule 1f1b --virtual-stages 1", p);
  EXPECT_NE(idle_text(chunks).find(back), std::string::npos) << idle_text(chunks);
}

}  // namespace stage_table_test
}  // namespace trainyard::plan

// Tests predicted step times against published ones, and against sums by hand.
#include "libtrain/plan/step_time.h"

#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/machine_time.h"
#include "libtrain/plan/schedule/simulate.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace trainyard::plan {
namespace step_time_test {

// Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters", table 1, and Korthikanti et
// al. 2022, "Reducing activation recomputation in large transformer models", table 5. Both: A100-80GB, sequences of
// 2,048 tokens, a vocabulary of 51,200, fp16, data parallel without ZeRO.
struct Published {
  std::int64_t hidden, layers, heads;
  int devices, tensor, pipeline, virtual_stages;
  std::int64_t micro_batch, global_batch;
  double full, selective;  // seconds of a step; 0: not published
};
const Published published[] = {
    {2304, 24, 24, 32, 1, 1, 1, 16, 512, 3.53, 0},          {3072, 30, 32, 64, 2, 1, 1, 16, 512, 3.70, 0},
    {4096, 36, 32, 128, 4, 1, 1, 16, 512, 3.70, 0},         {6144, 40, 48, 256, 8, 1, 1, 8, 1024, 9.40, 0},
    {8192, 48, 64, 512, 8, 2, 1, 4, 1536, 14.45, 0},        {10240, 60, 80, 1024, 8, 4, 3, 2, 1792, 16.06, 0},
    {12288, 80, 96, 1536, 8, 8, 2, 2, 2304, 24.82, 0},      {16384, 96, 128, 1920, 8, 16, 2, 1, 2160, 37.61, 0},
    {20480, 105, 128, 2520, 8, 35, 3, 1, 2520, 54.08, 0},   {25600, 128, 160, 3072, 8, 64, 1, 1, 3072, 102.63, 0},
    {6144, 48, 64, 8, 8, 1, 1, 4, 4, 1.42, 1.10},           {12288, 96, 96, 64, 8, 8, 3, 1, 64, 18.13, 13.75},
    {20480, 105, 128, 280, 8, 35, 3, 1, 280, 49.05, 37.83}, {25600, 128, 160, 512, 8, 64, 1, 1, 512, 94.42, 71.49}};

Plan plan_of(const Published& c, bool selective) {
  Plan p;
  p.model = preset("gpt2");
  p.model.hidden = c.hidden, p.model.layers = c.layers, p.model.heads = p.model.kv_heads = c.heads;
  p.model.ffn = 4 * c.hidden, p.model.context = p.sequence = 2048, p.model.vocabulary = 51200, p.model.lanes = 1;
  p.device = base::DeviceKind::cuda, p.dtype = base::DType::bf16;
  p.tensor = c.tensor, p.pipeline = c.pipeline, p.virtual_stages = c.virtual_stages;
  if (c.virtual_stages > 1) p.pipeline_schedule = PipelineSchedule::interleaved;
  p.micro_batch = c.micro_batch, p.global_batch = c.global_batch;
  p.local_accumulation = c.global_batch / c.micro_batch / (c.devices / c.tensor / c.pipeline);
  p.recompute = selective ? Recompute::selective : Recompute::layers, p.sequence_parallel = selective && c.tensor > 1;
  p.topology = topology_of(p, c.devices);
  EXPECT_EQ(text_of(decision_problems(p, {}, Kernels::others)), "");
  p.stages = stages_of(p);
  return p;
}

// Megatron-LM of those years had no fused attention, reduced gradients behind the last backward, in rings, and
// repeated whole layers.
const Execution of_2021{AttentionKernels::apart, false, true, true};

TEST(StepTime, PublishedStepTimes) {
  const auto machine = load_machine("dgx-a100-80");
  double sum = 0, most = 0;
  int count = 0, inside = 0;
  for (const auto& c : published)
    for (const bool selective : {false, true}) {
      const double seconds = selective ? c.selective : c.full;
      if (seconds == 0) continue;
      const auto predicted = step_interval(plan_of(c, selective), machine, of_2021);
      const double error = predicted.median.seconds / seconds - 1;
      sum += std::abs(error), most = std::max(most, std::abs(error)), ++count;
      if (predicted.low <= seconds && seconds <= predicted.high) ++inside;
      RecordProperty(
          "h" + std::to_string(c.hidden) + (selective ? "_selective_" : "_full_") + std::to_string(c.devices),
          std::to_string(predicted.median.seconds) + " of " + std::to_string(seconds));
      EXPECT_LE(std::abs(error), 0.2) << c.hidden << " " << selective << ": " << predicted.median.seconds << " of "
                                      << seconds;
      if (std::getenv("TRAINYARD_SHOW") != nullptr) {
        fmt::print("h {:6} {} {:7.2f} {:7.2f} {:+5.1f} %  ", c.hidden, selective, seconds, predicted.median.seconds,
                   100 * error);
        for (const auto& part : step_time_parts) fmt::print("{} {:.2f} ", part.key, predicted.median.*part.seconds);
        fmt::print("\n");
      }
    }
  EXPECT_EQ(count, 18);
  EXPECT_LE(sum / count, 0.1);
  EXPECT_GE(inside * 10, count * 9) << inside;
  if (std::getenv("TRAINYARD_SHOW") != nullptr) fmt::print("mean {} most {} inside {}\n", sum / count, most, inside);
}

// The whole run has the seconds that time() extrapolates from fewer micro-batches.
TEST(StepTime, TheRunOfAllMicroBatches) {
  const auto machine = load_machine("dgx-a100-80");
  for (const auto schedule :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved, PipelineSchedule::zero_bubble})
    for (const int stages : {1, 4}) {
      if (stages == 1 && schedule != PipelineSchedule::one_f_one_b) continue;
      auto p = plan_of({2304, 24, 24, 2 * stages, 2, stages, 1, 1, 42, 0, 0}, true);
      p.pipeline_schedule = schedule;
      if (schedule == PipelineSchedule::interleaved) p.virtual_stages = 3, p.global_batch = 44;
      p.stages = stages_of(p);
      StepTimer timer(p.model, machine);
      const auto time = timer.time(p);
      const auto run = timer.run(p);
      const double passes = time.products + time.attention + time.kernels + time.tensor + time.experts;
      EXPECT_NEAR(run.seconds, passes + time.idle, 1e-9 * run.seconds) << stages;
      ASSERT_EQ(std::ssize(run.stages), stages);
      EXPECT_NEAR(base::at(run.stages, time.stage).busy, passes, 1e-9 * passes);
      const auto halves = schedule == PipelineSchedule::zero_bubble ? 3 : 2;
      for (const auto& stage : run.stages)
        EXPECT_EQ(std::ssize(stage.work), p.global_batch * p.virtual_stages * halves) << stages;
    }
}

TEST(StepTime, SecondsHaveThreeDigits) {
  EXPECT_EQ(step_seconds_text(34.14), "34.1 s");
  EXPECT_EQ(step_seconds_text(0.5234), "523 ms");
  EXPECT_EQ(step_seconds_text(0.9996), "1.00 s");
  EXPECT_EQ(step_seconds_text(0.9994), "999 ms");
  EXPECT_EQ(step_seconds_text(0.000012), "12.0 us");
  EXPECT_EQ(step_seconds_text(0), "0.00 s");
}

}  // namespace step_time_test
}  // namespace trainyard::plan

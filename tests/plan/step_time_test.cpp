// Tests predicted step times against published ones, and against sums by hand.
#include "libtrain/plan/step_time.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/machine_time.h"
#include "libtrain/plan/schedule/simulate.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

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
      EXPECT_LE(std::abs(error), 0.2) << c.hidden << " " << selective << ": " << predicted.median.seconds << " of "
                                      << seconds;
    }
  EXPECT_EQ(count, 18);
  EXPECT_LE(sum / count, 0.1);
  EXPECT_GE(inside * 10, count * 9) << inside;
}

// Tokens a second that train reached on one GPU, in bf16 with sequences of 1,024 tokens (bench/RESULTS.md).
TEST(StepTime, MeasuredOnGpus) {
  struct Measured {
    const char *machine, *model;
    std::int64_t vocabulary, micro_batch;
    double tokens_a_second;
  };
  double sum = 0;
  const Measured all[] = {{"hgx-h200", "gpt2", 50257, 32, 460'400}, {"hgx-h200", "gpt2-xl", 50257, 8, 43'150},
                          {"hgx-h200", "gpt2-xl", 259, 8, 44'900},  {"hgx-h200", "llama-1b", 259, 8, 75'400},
                          {"dgx-h100", "gpt2", 259, 32, 606'300},   {"dgx-h100", "gpt2-xl", 259, 8, 42'900},
                          {"dgx-h100", "llama-1b", 259, 8, 77'200}};
  for (const auto& c : all) {
    const auto machine = load_machine(c.machine);
    Plan p;
    p.model = preset(c.model);
    p.model.vocabulary = c.vocabulary, p.model.lanes = 1, p.sequence = 1024;
    p.device = base::DeviceKind::cuda, p.dtype = base::DType::bf16;
    p.micro_batch = p.global_batch = c.micro_batch;
    p.stages = stages_of(p);
    const auto predicted = step_interval(p, machine);
    const double seconds = static_cast<double>(c.micro_batch * p.sequence) / c.tokens_a_second,
                 error = predicted.median.seconds / seconds - 1;
    sum += std::abs(error);
    EXPECT_LE(std::abs(error), 0.2) << c.machine << " " << c.model << ": " << predicted.median.seconds << " of "
                                    << seconds;
    EXPECT_TRUE(predicted.low <= seconds && seconds <= predicted.high) << c.machine << " " << c.model;
  }
  EXPECT_LE(sum / static_cast<double>(std::size(all)), 0.1);
}

Plan stages_of_test(int pipeline, int chunks, PipelineSchedule schedule, std::int64_t micros) {
  Plan p;
  p.model = preset("gpt2");
  p.model.layers = 48, p.partition = "type:layers", p.model.vocabulary = 64, p.model.lanes = 1;
  p.sequence = 1024, p.device = base::DeviceKind::cuda, p.dtype = base::DType::bf16;
  p.pipeline = pipeline, p.virtual_stages = chunks, p.pipeline_schedule = schedule;
  p.global_batch = micros, p.topology = topology_of(p, pipeline);
  p.stages = stages_of(p);
  return p;
}

// With equal stages and no messages to speak of, stages wait for (p - 1) / (v m) of their passes (Narayanan et al.
// 2021, section 2.2). Only some of the many micro-batches are simulated, which may not show.
TEST(StepTime, StagesWaitAsThePaperSays) {
  auto machine = load_machine("dgx-a100-80");
  machine.link_bandwidth = 1e15, machine.link_latency = 0;
  StepTimer timer(stages_of_test(4, 1, PipelineSchedule::one_f_one_b, 4).model, machine);
  for (const std::int64_t micros : {4, 8, 12, 64, 256}) {
    const auto idle = [&](int chunks, PipelineSchedule schedule) {
      const auto time = timer.time(stages_of_test(4, chunks, schedule, micros));
      return time.idle / (time.products + time.attention + time.kernels);
    };
    const double expected = 3 / static_cast<double>(micros);
    EXPECT_NEAR(idle(1, PipelineSchedule::one_f_one_b), expected, 0.02 + 0.05 * expected) << micros;
    EXPECT_NEAR(idle(2, PipelineSchedule::interleaved), expected / 2, 0.02 + 0.05 * expected) << micros;
    EXPECT_LT(idle(1, PipelineSchedule::zero_bubble), expected * 0.8) << micros;
  }
}

TEST(StepTime, PartsAddUpAndWordsOfAssumeAreKnown) {
  const auto machine = load_machine("dgx-a100-80");
  for (const int pipeline : {1, 2, 4})
    for (const int zero : {0, 3}) {
      auto p = stages_of_test(pipeline, 1, PipelineSchedule::one_f_one_b, 16);
      p.zero = zero, p.topology = topology_of(p, 8);
      const auto time = StepTimer(p.model, machine).time(p);
      double sum = 0;
      for (const auto& part : step_time_parts) sum += time.*part.seconds;
      EXPECT_NEAR(sum, time.seconds, 1e-12);
      EXPECT_GE(time.idle, -1e-12);
    }
  const auto all = execution_of_text("unfused-attention,no-overlap,whole-recomputation,rings", "--assume");
  EXPECT_TRUE(all.attention == AttentionKernels::apart && !all.overlap && all.whole_recomputation && all.rings);
  EXPECT_THROW(execution_of_text("ring", "--assume"), base::UsageError);
  EXPECT_THROW(execution_of_text("rings,no-overlap,rings", "--assume"), base::UsageError);
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

// A byte takes 1 ns on a link, and passes take so long that they hide what they can.
Machine bare() {
  auto m = load_machine("dgx-a100-80");
  m.link_bandwidth = 1e9, m.link_share = m.memory_share = 1, m.link_latency = m.network_latency = 0;
  m.memory_bandwidth = 1e18, m.flops_16bit = 1e9;
  return m;
}

// Elements of the flat groups. h = 128: a layer has 12 h^2 + 13 h, the embedding 256 + 64 rows, the head a table of its
// own and a norm. All are whole numbers of 128, so two ranks have halves without padding.
constexpr double embedding = 40'960, layer = 198'272, head = 33'024, all = embedding + 2 * layer + head;

Plan plan_with(const std::function<void(Plan&)>& change, int ranks = 2) {
  Plan p;
  p.model = preset("gpt2");
  p.model.hidden = 128, p.model.ffn = 512, p.model.heads = p.model.kv_heads = 2, p.model.layers = 2;
  p.model.vocabulary = 256, p.model.context = p.sequence = 64, p.model.lanes = 1, p.model.tied = false;
  p.device = base::DeviceKind::cuda, p.dtype = base::DType::bf16, p.global_batch = 8;
  change(p);
  p.topology = topology_of(p, ranks);
  p.stages = stages_of(p);
  return p;
}
Plan with_zero(int zero) {
  return plan_with([&](Plan& p) { p.zero = zero; });
}

StepTime time_of(const Plan& p, const Machine& m, const Execution& execution = {}) {
  return StepTimer(p.model, m, execution).time(p);
}

// Two ranks send half of the bytes: a gather in bf16 takes 1 ns an element, a reduction in f32 2 ns. A rank has four
// micro-batches, each with a reduction; in ZeRO 3 each gathers the embedding once, and all else in both passes.
constexpr double gathered = 1e-9, reduced = 2e-9;

TEST(StepTime, WithoutOverlapAllCallsCount) {
  const Execution apart{.overlap = false};
  const double reductions = 4 * reduced * all;
  EXPECT_NEAR(time_of(with_zero(2), bare(), apart).data, reductions + gathered * all, 1e-12);
  EXPECT_NEAR(time_of(with_zero(3), bare(), apart).data, reductions + 4 * gathered * (embedding + 4 * layer + 2 * head),
              1e-12);
}

// The first gathers and the last reductions are those of the embedding, which computes nothing here, and of a layer.
TEST(StepTime, PassesDoNotHideTheFirstGatherAndTheLastReduction) {
  const double first = gathered * (embedding + layer), last = reduced * (embedding + layer);
  for (const int zero : {1, 2, 3}) EXPECT_NEAR(time_of(with_zero(zero), bare()).data, first + last, 1e-12) << zero;
  EXPECT_NEAR(time_of(with_zero(0), bare()).data, 2 * gathered * all + last, 1e-12) << "sums are gathered at the end";
  EXPECT_EQ(time_of(plan_with([](Plan& p) { p.zero = 3; }, 1), bare()).data, 0);
  // Of pipeline stages, the first one begins and ends.
  const auto stages =
      plan_with([](Plan& p) { p.zero = 2, p.pipeline = 2, p.pipeline_schedule = PipelineSchedule::one_f_one_b; }, 4);
  EXPECT_NEAR(time_of(stages, bare()).data, first + last, 1e-12);
  // Breadth first, each micro-batch of the embedding waits for the reduction of the one before.
  const auto breadth = plan_with([](Plan& p) { p.zero = 3, p.accumulation_order = AccumulationOrder::breadth; });
  EXPECT_NEAR(time_of(breadth, bare()).data, first + last + 3 * reduced * embedding, 1e-12);
}

TEST(StepTime, LinksHaveTimeForNoMoreThanAllPasses) {
  auto m = bare();
  m.flops_16bit = 1e18;
  const auto t = time_of(with_zero(3), m);
  const double calls = 4 * reduced * all + 4 * gathered * (embedding + 4 * layer + 2 * head);
  EXPECT_GT(t.data, 0.8 * calls);
  EXPECT_NEAR(t.data + t.products + t.attention + t.kernels, calls, 1e-12);
}

// A second a call. Of two layers each rank has 12 h^2 / 2 weights and 19 h / 2 other numbers: 101 MB of gradients and
// 50 MB of weights, in 7 and 4 segments of 16 MiB. Tokens, positions and the head are smaller.
TEST(StepTime, RingsSendAFlatGroupInOneCall) {
  auto m = bare();
  m.link_bandwidth = 1e18, m.link_latency = 1;
  const auto p = plan_with(
      [](Plan& q) { q.model.hidden = 2048, q.model.ffn = 8192, q.tensor = 2, q.zero = 2, q.local_accumulation = 4; },
      4);
  EXPECT_NEAR(time_of(p, m, {.overlap = false}).data, 2 * (7 + 4) + 3 * 2, 1e-6);
  EXPECT_NEAR(time_of(p, m, {.overlap = false, .rings = true}).data, 5 * 2, 1e-6);
}

// Partial sums have 4 bytes an element here, and 2 in a library. Half of them pass the link between two ranks.
TEST(StepTime, RingsAddTensorParallelSumsInTheDtypeOfActivations) {
  auto m = bare();
  m.link_bandwidth = 1e9, m.link_latency = 0;
  const auto p = plan_with([](Plan& q) { q.tensor = 2; });
  const auto ours = time_of(p, m, {.overlap = false}), theirs = time_of(p, m, {.overlap = false, .rings = true});
  EXPECT_GT(ours.tensor, theirs.tensor);
  std::int64_t saved = 0;
  for (const auto& c : tensor_calls(p.part_of_stage(0), p.micro(), Pass::train, p.recompute, p.batch().micros_of(0)))
    if (c.operation == "all_to_all") saved += c.calls * c.bytes / 2;
  EXPECT_NEAR(ours.tensor - theirs.tensor, 0.5e-9 * static_cast<double>(saved), 1e-9);
}

// The fifth stage has a layer less than the others, and the first one the embedding: with few micro-batches another
// stage sets the pace than with thousands. However many there are, the busiest stage computes all of them.
TEST(StepTime, ManyMicroBatchesTakeWhatTheBusiestStageDoes) {
  Plan p;
  p.model = preset("gpt3-175b");
  p.model.vocabulary = 51200, p.model.lanes = 8, p.sequence = 2048;
  p.device = base::DeviceKind::cuda, p.dtype = base::DType::bf16, p.global_batch = 4096;
  p.tensor = p.pipeline = 8, p.partition = "0,14,26,38,50,61,73,86";
  p.topology = topology_of(p, 64), p.stages = stages_of(p);
  StepTimer timer(p.model, load_machine("dgx-a100-80"));
  EXPECT_GE(timer.passes(p), timer.at_least(p));
  EXPECT_GE(timer.time(p).idle, 0);
}

// An element of AdamW has 12 bytes of states, which are read and written, 2 of weights, which are written, and 4 of
// gradients, which are read for the norm and for the update.
TEST(StepTime, ARankUpdatesItsShards) {
  auto m = bare();
  m.memory_bandwidth = 1e9;
  const auto update = [&](const Plan& p) { return time_of(p, m).update; };
  for (const int zero : {1, 2, 3}) EXPECT_NEAR(update(with_zero(zero)), 1e-9 * 34 * all / 2, 1e-12) << zero;
  const auto kept = plan_with([](Plan& p) { p.zero = 2, p.local_accumulation = 2; });
  EXPECT_NEAR(update(kept), 1e-9 * 34 * all / 2, 1e-12);
  // ZeRO 0 updates all, and reads its shard for the norm.
  EXPECT_NEAR(update(with_zero(0)), 1e-9 * (30 * all + 4 * all / 2), 1e-12);
  // A tied table's later gradient is added to the first: two are read, one is written. The head has its norm alone.
  const auto tied = plan_with([](Plan& p) { p.zero = 1, p.model.tied = true; });
  const double elements = embedding + 2 * layer + 256;
  EXPECT_NEAR(update(tied), 1e-9 * (34 * elements + 12 * 256 * 128) / 2, 1e-12);
  // In f32 weights are their own masters: they are read, too, and states have 8 bytes.
  const auto wide = plan_with([](Plan& p) { p.zero = 1, p.dtype = base::DType::f32; });
  EXPECT_NEAR(update(wide), 1e-9 * 32 * all / 2, 1e-12);
}

// A host of 1 GB/s updates 12 bytes of states an element, read and written. The first forward hides some of it: at most
// 2 us for each of its products.
TEST(StepTime, AHostBelongsToTheRanksThatAreThere) {
  auto m = bare();
  m.flops_16bit = 1e18, m.host_bandwidth = 1e9, m.cores = 0;
  const auto update = [&](int ranks) {
    return time_of(plan_with(
                       [](Plan& p) {
                         p.zero = 1, p.offload.optimizer = {Place::host};
                         p.global_batch = 16;
                       },
                       ranks),
                   m)
        .update;
  };
  for (const int ranks : {1, 2, 8}) EXPECT_NEAR(update(ranks), 1e-9 * 24 * all, 1e-4) << ranks;
  EXPECT_NEAR(update(16), 1e-9 * 24 * all / 2, 1e-4) << "two nodes";
  EXPECT_EQ(devices_used(m, 1), 1);
  EXPECT_EQ(devices_used(m, 16), 8);
  EXPECT_EQ(host_memory_of_device(load_machine("dgx2-v100"), 1), 1'500'000'000'000);
  EXPECT_EQ(host_memory_of_device(load_machine("dgx2-v100"), 64), 93'750'000'000);
}

// Two ranks add up 64 rows of 128 numbers: each sends half of them in f32, and of the sums half in bf16, which it keeps
// with sequence parallelism. A layer's last sum is not read where it is computed again.
TEST(StepTime, WholeRecomputationRepeatsTheLastCall) {
  const auto tensor = [&](bool whole, bool sequence_parallel) {
    const auto p = plan_with(
        [&](Plan& q) { q.tensor = 2, q.sequence_parallel = sequence_parallel, q.recompute = Recompute::layers; });
    Execution execution;
    execution.whole_recomputation = whole;
    return time_of(p, bare(), execution).tensor;
  };
  const double layers = 8 * 2, half = 64 * 128 / 2;
  EXPECT_NEAR(tensor(true, false) - tensor(false, false), layers * 1e-9 * half * (4 + 2), 1e-12);
  EXPECT_NEAR(tensor(true, true) - tensor(false, true), layers * 1e-9 * half * 4, 1e-12);
}

// Products of unfused attention are products like others.
TEST(StepTime, UnfusedAttentionHasTheRateOfProducts) {
  auto m = load_machine("dgx-h100");
  const auto p = with_zero(0);
  const Execution apart{.attention = AttentionKernels::apart};
  const double before = time_of(p, m, apart).seconds, fused = time_of(p, m).seconds;
  EXPECT_EQ(time_of(p, m, apart).attention, 0);
  m.attention_share /= 2;
  EXPECT_EQ(time_of(p, m, apart).seconds, before);
  EXPECT_GT(time_of(p, m).seconds, fused);
}

// Softmax, what dropout leaves of it and its mask: 5 a s^2 b / t bytes a layer (Korthikanti et al. 2022, equation 2),
// of which recomputation keeps none between forward and backward. One layer at a time has them.
TEST(StepTime, UnfusedAttentionKeepsScores) {
  const auto scores = [](Recompute recompute, int tensor) {
    const auto activations = [&](AttentionKernels attention) {
      const auto p = plan_with([&](Plan& q) {
        q.model.context = q.sequence = 1024;
        q.recompute = recompute, q.tensor = tensor, q.attention = attention;
      });
      return memory_of_stage(p, 0).categories[base::MemoryCategory::activations];
    };
    return activations(AttentionKernels::apart) - activations(AttentionKernels::fused);
  };
  const std::int64_t of_layer = 5 * 2 * 1024 * 1024;
  EXPECT_EQ(scores(Recompute::none, 1), 2 * of_layer);
  EXPECT_EQ(scores(Recompute::none, 2), of_layer);
  // In the place that all layers share, these are the most, where it was what the head computes.
  for (const auto recompute : {Recompute::selective, Recompute::layers}) {
    EXPECT_GT(scores(recompute, 1), of_layer / 2);
    EXPECT_LE(scores(recompute, 1), of_layer);
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

// Several micro-batches in flight: all forward passes before all backward passes give the numbers of one micro-batch
// after the other. They take the predicted memory, at every ZeRO stage, with local accumulation, and with an uneven
// last accumulation step.
#include "libtrain/engine/setup.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/plan/activation_use.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/schedule/schedule.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <limits>

namespace trainyard {
namespace {

using testing::SmallRun;

struct Numbers {
  std::vector<std::pair<double, double>> steps;  // loss and norm, of training and of validation
  std::string diagnosis;
  bool operator==(const Numbers&) const = default;
};

struct Asked {
  std::string schedule;
  int ranks = 1, tensor = 1, zero = 0;
};

std::vector<std::int64_t> layers_elsewhere(const plan::Plan& plan) {
  return plan::activation_offload_of_stage(plan, 0).layers_of_chunks();
}

Numbers numbers_of(engine::RunConfig config, const Asked& asked) {
  Numbers out;
  config.tensor = asked.tensor, config.zero = asked.zero, config.threads = 1;
  comm::run_ranks(asked.ranks, [&](int rank, comm::ThreadsWorld& threads) {
    auto world =
        engine::make_world("threads", rank, plan::replicas_of(asked.ranks, asked.tensor), threads.factory(rank));
    auto setup = engine::make_setup(config, asked.ranks, 1);
    if (asked.schedule == "gpipe") setup.plan.pipeline_schedule = plan::PipelineSchedule::gpipe;
    plan::predict(setup.plan);
    const auto slots = plan::slots_of_stage(setup.plan, 0).front();
    EXPECT_EQ(slots,
              asked.schedule == "gpipe" ? setup.plan.batch().accumulation_steps() * setup.plan.local_accumulation : 1);
    data::WindowDataset training(
        config.data, setup.index, setup.index.train,
        {.sequence = setup.plan.sequence, .mask = setup.mask, .order = data::Order::keyed, .seed = config.seed});
    data::WindowDataset validation(
        config.data, setup.index, setup.index.validation,
        {.sequence = setup.plan.sequence, .mask = setup.mask, .order = data::Order::as_stored, .seed = config.seed});
    engine::Batches batches(training, &validation, setup.plan.batch(), world.coordinate(plan::Axis::data), slots);
    engine::Trainer trainer(setup.plan, setup.step, world, batches);
    trainer.store().initialize(config.seed);
    // A step is abandoned, with weights that were fetched ahead under way. Without slots that happens at the second
    // accumulation step.
    int asked_so_far = 0;
    EXPECT_FALSE(trainer.begin_step(0, [&] { return ++asked_so_far == (slots > 1 ? 1 : 2); }));
    for (std::int64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(trainer.begin_step(step, [] { return false; }));
      const auto outcome = trainer.finish_step();
      const double loss = trainer.validate(8);
      if (rank == 0) out.steps.insert(out.steps.end(), {{outcome.loss, outcome.gradient_norm}, {loss, 0}});
    }
    trainer.complete_weights();
    auto predicted = setup.plan.memory.categories;
    const auto measured = trainer.memory().measured();
    const auto activations = tensor::Category::activations;
    // A rank that idles in the last accumulation step has one slot less in use.
    const auto busy =
        setup.plan.batch().accumulation_steps_of(world.coordinate(plan::Axis::data)) * setup.plan.local_accumulation;
    if (slots > 1)
      predicted[activations] -=
          (slots - busy) * plan::slot_bytes(setup.plan.part_of_stage(0), setup.plan.micro(), setup.plan.recompute,
                                            {slots}, layers_elsewhere(setup.plan))
                               .of_chunk[0];
    EXPECT_EQ(measured[activations], predicted[activations]) << asked.schedule << " rank " << rank;
    EXPECT_EQ(measured[tensor::Category::workspace], predicted[tensor::Category::workspace]);
    auto& context = trainer.context();
    for (int u = 0; u < context.flat_groups(); ++u)
      for (std::size_t p = 0; p < context.flat_group(u).parameters.size(); ++p)
        if (context.flat_group(u).parameters[p].name == "layers.01.ffn_norm.weight")
          trainer.store().states().master_shard(u).ptr<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    trainer.store().shards_loaded();
    const auto found = trainer.diagnose(3);
    if (rank == 0) out.diagnosis = found;
  });
  return out;
}

TEST(Slots, HaveTheNumbersOfOneMicroBatchAfterTheOther) {
  SmallRun runs;
  auto config = runs.config("slots");
  for (const std::int64_t local_accumulation : {1, 2}) {
    config.recompute = local_accumulation == 1 ? plan::Recompute::none : plan::Recompute::selective;
    config.local_accumulation = local_accumulation,
    config.global_batch = local_accumulation == 1 ? 7 * config.micro_batch : 8 * config.micro_batch;
    const auto expected = numbers_of(config, {"one-stage"});
    ASSERT_EQ(expected.steps.size(), 6u);
    EXPECT_NE(expected.diagnosis.find("micro-batch 0: "), std::string::npos) << expected.diagnosis;
    EXPECT_EQ(numbers_of(config, {"gpipe"}), expected);
    for (const int ranks : {2, 3})
      for (const int zero : {0, 1, 2, 3})
        for (const char* schedule : {"gpipe", "one-stage"})
          EXPECT_EQ(numbers_of(config, {schedule, ranks, 1, zero}).steps, expected.steps)
              << schedule << ", " << ranks << " ranks, ZeRO " << zero << ", local accumulation " << local_accumulation;
  }
}

TEST(Slots, OfSharedLayersToo) {
  SmallRun runs;
  auto config = runs.config("shared");
  config.micro_batch = 4, config.dtype = base::DType::bf16, config.recompute = plan::Recompute::layers;
  config.global_batch = 5 * config.micro_batch;
  const auto expected = numbers_of(config, {"one-stage"});
  config.sequence_parallel = true;
  for (const auto& asked : {Asked{"gpipe", 2, 2, 0}, {"gpipe", 4, 2, 1}, {"gpipe", 6, 2, 3}})
    EXPECT_EQ(numbers_of(config, asked).steps, expected.steps) << asked.ranks << " ranks, ZeRO " << asked.zero;
}

// Steps that are abandoned, validations and a diagnosis leave the inputs on disk of the next step right.
TEST(Slots, InputsOfLayersOnDisk) {
  SmallRun runs;
  auto config = runs.config("inputs");
  config.micro_batch = 2, config.global_batch = 5 * config.micro_batch, config.recompute = plan::Recompute::layers;
  const auto expected = numbers_of(config, {"one-stage"});
  config.offload_dir = runs.folder().string();
  for (const char* offload : {"activations=disk", "activations=disk:0.5"})
    for (const auto& asked : {Asked{"one-stage"}, {"gpipe"}, {"gpipe", 2, 1, 3}, {"one-stage", 2, 2, 1}}) {
      config.offload = plan::offload_of_text(offload, "test");
      const auto got = numbers_of(config, asked);
      EXPECT_EQ(got.steps, expected.steps) << offload << ", " << asked.schedule << ", " << asked.ranks << " ranks";
      EXPECT_EQ(got.diagnosis, expected.diagnosis);
    }
}

}  // namespace
}  // namespace trainyard

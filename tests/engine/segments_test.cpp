// With tensor parallelism, transfers of whole flat groups are divided into segments that are issued between other
// calls. With segments of a few hundred bytes a step has the numbers of one rank: at every ZeRO stage, with an uneven
// last accumulation step, after an abandoned step, with sequence parallelism, and with validations between steps.
#include "libtrain/engine/setup.h"
#include "libtrain/engine/trainer.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <limits>

namespace trainyard {
namespace {

using testing::SmallRun;

std::int64_t segment_steps() { return testing::by_day_or_night(2, 4); }

std::vector<std::pair<double, double>> losses_and_norms(const engine::RunConfig& asked, int ranks, int tensor, int zero,
                                                        std::int64_t segment_bytes, std::int64_t validated = 0) {
  std::vector<std::pair<double, double>> out;
  auto config = asked;
  config.tensor = tensor, config.zero = zero, config.threads = 1;
  comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
    auto world = engine::make_world("threads", rank, plan::replicas_of(ranks, tensor), threads.factory(rank));
    const auto setup = engine::make_setup(config, ranks, 1);
    data::WindowDataset training(
        config.data, setup.index, setup.index.train,
        {.sequence = setup.plan.sequence, .mask = setup.mask, .order = data::Order::keyed, .seed = config.seed});
    data::WindowDataset validation(
        config.data, setup.index, setup.index.validation,
        {.sequence = setup.plan.sequence, .mask = setup.mask, .order = data::Order::as_stored, .seed = config.seed});
    engine::Batches batches(training, &validation, setup.plan.batch(), world.coordinate(plan::Axis::data));
    engine::Trainer trainer(setup.plan, setup.step, world, batches);
    trainer.context().segment_bytes = segment_bytes;
    trainer.store().initialize(config.seed);
    // A step is abandoned at the second accumulation step, with transfers under way, and begun again.
    int asked_so_far = 0;
    EXPECT_FALSE(trainer.begin_step(0, [&] { return ++asked_so_far == 2; }));
    for (std::int64_t step = 0; step < segment_steps(); ++step) {
      ASSERT_TRUE(trainer.begin_step(step, [] { return false; }));
      const auto outcome = trainer.finish_step();
      if (rank == 0) out.emplace_back(outcome.loss, outcome.gradient_norm);
      if (validated == 0) continue;
      const double loss = trainer.validate(validated);
      if (rank == 0) out.emplace_back(loss, 0);
    }
    trainer.complete_weights();
  });
  return out;
}

TEST(Segments, HaveTheNumbersOfOneRank) {
  SmallRun runs;
  auto config = runs.config("segments");
  config.global_batch = 7;  // with two or three replicas the last accumulation step is uneven
  for (const auto recompute : plan::recomputations) {
    config.recompute = recompute;
    const auto expected = losses_and_norms(config, 1, 1, 0, plan::segment_bytes);
    ASSERT_EQ(std::ssize(expected), segment_steps());
    for (const auto& [ranks, tensor] : {std::pair{4, 2}, {6, 2}, {8, 4}})
      for (const int zero : {0, 1, 2, 3}) {
        // By day every second one: each stage with each recomputation and each division into ranks.
        if (!testing::at_night() && (zero + ranks / 2 + static_cast<int>(recompute)) % 2 == 1) continue;
        EXPECT_EQ(losses_and_norms(config, ranks, tensor, zero, 777), expected)
            << ranks << " ranks, tensor " << tensor << ", ZeRO " << zero;
      }
  }
}

// With sequence parallelism: five micro-batches in groups of one, or eight in groups of two, whose tokens two ranks can
// share.
TEST(Segments, OfRanksThatShareRowsToo) {
  SmallRun runs;
  auto config = runs.config("rows");
  config.micro_batch = 4, config.dtype = base::DType::bf16, config.recompute = plan::Recompute::layers;
  for (const std::int64_t local_accumulation : {1, 2}) {
    config.local_accumulation = local_accumulation,
    config.global_batch = config.micro_batch * (local_accumulation == 1 ? 5 : 8);
    config.sequence_parallel = false;
    const auto expected = losses_and_norms(config, 1, 1, 0, plan::segment_bytes, 8);
    ASSERT_EQ(std::ssize(expected), 2 * segment_steps());
    config.sequence_parallel = true;
    for (const auto& [ranks, tensor] : {std::pair{4, 2}, {6, 2}})
      for (const int zero : {1, 3})
        EXPECT_EQ(losses_and_norms(config, ranks, tensor, zero, 777, 8), expected)
            << ranks << " ranks, tensor " << tensor << ", ZeRO " << zero << ", local accumulation "
            << local_accumulation;
  }
}

// A value that is not finite is named by its row in the micro-batch, whichever rank has that row.
TEST(Diagnosis, NamesTheRowOfTheMicroBatch) {
  SmallRun runs;
  auto config = runs.config("diagnosis");
  config.model = runs.model("diagnosis", "layers = 1\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 128\n");
  config.global_batch = 2, config.threads = 1;
  const auto diagnosis_of = [&](int ranks, int tensor, bool rows, std::int64_t position) {
    std::string text;
    config.tensor = tensor, config.sequence_parallel = rows;
    comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
      auto world = engine::make_world("threads", rank, plan::replicas_of(ranks, tensor), threads.factory(rank));
      const auto setup = engine::make_setup(config, ranks, 1);
      data::WindowDataset training(
          config.data, setup.index, setup.index.train,
          {.sequence = setup.plan.sequence, .mask = setup.mask, .order = data::Order::keyed, .seed = config.seed});
      engine::Batches batches(training, nullptr, setup.plan.batch(), world.coordinate(plan::Axis::data));
      engine::Trainer trainer(setup.plan, setup.step, world, batches);
      trainer.store().initialize(config.seed);
      auto& context = trainer.context();
      for (int u = 0; u < context.flat_groups(); ++u)
        for (std::size_t p = 0; p < context.flat_group(u).parameters.size(); ++p)
          if (context.flat_group(u).parameters[p].name.find("position") != std::string::npos)
            trainer.store().states().master_shard(u).ptr<float>()[context.layout(u).offsets[p] + position * 32 + 5] =
                std::numeric_limits<float>::quiet_NaN();
      trainer.store().shards_loaded();
      const auto found = trainer.diagnose(0);
      if (rank == 0) text = found;
    });
    return text;
  };
  for (const std::int64_t position : {3, 100})
    for (const bool rows : {false, true}) {
      const auto one = diagnosis_of(1, 1, false, position);
      EXPECT_NE(one.find(fmt::format("first at row {}, column 5", position)), std::string::npos) << one;
      EXPECT_EQ(diagnosis_of(2, 2, rows, position), one);
    }
}

}  // namespace
}  // namespace trainyard

// Where ranks share layers, transfers of whole units go in segments between other calls: with segments of a few
// hundred bytes a step has the numbers of one rank, at every stage, in rounds that are not full and when it is
// abandoned.
#include "libtrain/engine/setup.h"
#include "libtrain/engine/trainer.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <mutex>

namespace trainyard {
namespace {

using testing::SmallRun;

std::vector<std::pair<double, double>> losses_and_norms(const engine::RunConfig& asked, int ranks, int tensor, int zero,
                                                        std::int64_t segment_bytes) {
  std::vector<std::pair<double, double>> out;
  std::mutex mutex;
  auto config = asked;
  config.tensor = tensor, config.zero = zero, config.threads = 1;
  comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
    auto world = engine::make_world("threads", rank, ranks, threads.factory(rank), tensor);
    const auto setup = engine::make_setup(config, ranks, 1);
    data::WindowDataset training(config.data, setup.index, setup.index.train, setup.plan.sequence, setup.mask,
                                 data::Order::keyed, config.seed);
    engine::Batches batches(training, nullptr, setup.plan.batch(), world.coordinate(plan::Axis::data));
    engine::Trainer trainer(setup.plan, setup.step, world, batches);
    trainer.context().segment_bytes = segment_bytes;
    trainer.store().initialize(config.seed);
    // Given up at the second round, with transfers on their way, and begun again.
    int asked_so_far = 0;
    EXPECT_FALSE(trainer.begin_step(0, [&] { return ++asked_so_far == 2; }));
    for (std::int64_t step = 0; step < 4; ++step) {
      ASSERT_TRUE(trainer.begin_step(step, [] { return false; }));
      const auto outcome = trainer.finish_step();
      std::lock_guard lock(mutex);
      if (rank == 0) out.emplace_back(outcome.loss, outcome.gradient_norm);
    }
    trainer.complete_weights();
  });
  return out;
}

TEST(Segments, HaveTheNumbersOfOneRank) {
  SmallRun runs;
  auto config = runs.config("segments");
  config.global_batch = 7;  // of two or three replicas the last round is not full
  for (const auto recompute : {plan::Recompute::none, plan::Recompute::layers}) {
    config.recompute = recompute;
    const auto expected = losses_and_norms(config, 1, 1, 0, plan::segment_bytes);
    ASSERT_EQ(expected.size(), 4u);
    for (const auto& [ranks, tensor] : {std::pair{4, 2}, {6, 2}, {8, 4}})
      for (const int zero : {0, 1, 2, 3})
        EXPECT_EQ(losses_and_norms(config, ranks, tensor, zero, 777), expected)
            << ranks << " ranks, tensor " << tensor << ", ZeRO " << zero;
  }
}

}  // namespace
}  // namespace trainyard

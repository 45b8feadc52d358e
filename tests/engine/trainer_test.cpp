// Tests what a trainer refuses of a program that makes one itself: plans, worlds and batches that do not fit together,
// weights without values, validation without data.
#include "libtrain/engine/evaluator.h"
#include "libtrain/engine/setup.h"
#include "tests/engine/small_run.h"
#include "tests/refusal.h"

#include <gtest/gtest.h>

namespace {

using namespace trainyard;
using trainyard::testing::SmallRun;

engine::RunConfig small(const SmallRun& runs) {
  auto c = runs.config("trainer");
  c.model = runs.model("small", "layers = 1\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 16\n");
  c.global_batch = 2, c.threads = 1;
  return c;
}

// One rank with a plan, datasets and batches, of which a test changes a part.
struct Rank {
  explicit Rank(const SmallRun& runs) : config(small(runs)), setup(engine::make_setup(config, 1, 1)) {}
  data::WindowDataset windows(std::int64_t sequence) const {
    return {config.data,
            setup.index,
            setup.index.train,
            {.sequence = sequence, .mask = setup.mask, .order = data::Order::keyed, .seed = config.seed}};
  }
  engine::RunConfig config;
  engine::RunSetup setup;
  engine::World world = engine::solo_world();
};

using trainyard::testing::refusal_of;

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Trainer, RefusesAPlanThatIsNotPredicted) {
  SmallRun runs;
  Rank r(runs);
  auto training = r.windows(16);
  plan::Plan decided;
  static_cast<plan::ParallelLayout&>(decided) = r.setup.plan;
  decided.model = r.setup.plan.model, decided.topology = r.setup.plan.topology;
  engine::Batches batches(training, nullptr, decided.batch(), 0);
  EXPECT_SAYS(refusal_of([&] { engine::Trainer(decided, r.setup.step, r.world, batches); }),
              "a plan that plan::predict has not filled");
  EXPECT_SAYS(refusal_of([&] { engine::Evaluator(decided, r.setup.step, r.world, batches); }),
              "a plan that plan::predict has not filled");
}

TEST(Trainer, RefusesBatchesOfAnotherPlan) {
  SmallRun runs;
  Rank r(runs);
  auto training = r.windows(16), shorter = r.windows(8);
  engine::Batches of_8(shorter, nullptr, r.setup.plan.batch(), 0);
  EXPECT_SAYS(refusal_of([&] { engine::Trainer(r.setup.plan, r.setup.step, r.world, of_8); }),
              "batches of 2 sequences of 8 tokens, 1 in a micro-batch, 1 micro-batches accumulated; the plan has 2 of "
              "16, 1, 1");
  auto larger = r.setup.plan.batch();
  larger.micro_batch = 2;
  engine::Batches of_2(training, nullptr, larger, 0);
  EXPECT_SAYS(refusal_of([&] { engine::Trainer(r.setup.plan, r.setup.step, r.world, of_2); }), "2 in a micro-batch");
  EXPECT_SAYS(refusal_of([&] { engine::Batches(training, &shorter, r.setup.plan.batch(), 0); }),
              "windows of 16 tokens for training, and of 8 for validation");
}

TEST(Trainer, RefusesAWorldOfAnotherLayout) {
  SmallRun runs;
  Rank r(runs);
  auto training = r.windows(16);
  engine::Batches batches(training, nullptr, r.setup.plan.batch(), 0);
  comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& threads) {
    auto world = engine::make_world("threads", rank, 2, threads.factory(rank));
    EXPECT_SAYS(refusal_of<base::UsageError>([&] { engine::Trainer(r.setup.plan, r.setup.step, world, batches); }),
                "the world has another parallel layout than the plan: 2 ranks along data (the plan needs 1)");
  });
}

TEST(Trainer, RefusesWeightsWithoutValuesAndValidationWithoutData) {
  SmallRun runs;
  Rank r(runs);
  auto training = r.windows(16);
  engine::Batches batches(training, nullptr, r.setup.plan.batch(), 0);
  engine::Trainer trainer(r.setup.plan, r.setup.step, r.world, batches);
  const std::string text = "parameters have no values: store().initialize(seed) comes first";
  EXPECT_SAYS(refusal_of([&] { trainer.begin_step(0, {}); }), text);
  EXPECT_SAYS(refusal_of([&] { trainer.validate(1); }), text);
  EXPECT_SAYS(refusal_of([&] { trainer.diagnose(0); }), text);
  trainer.store().initialize(1);
  EXPECT_SAYS(refusal_of([&] { trainer.validate(1); }), "a validation of 1 sequences without a dataset");
  EXPECT_SAYS(refusal_of([&] { batches.validation(0); }), "micro-batch 0 of a validation without a dataset");
  ASSERT_TRUE(trainer.begin_step(0, {})) << "an empty function does not stop a step";
  EXPECT_GT(trainer.finish_step().loss, 1);
  trainer.complete_weights();
}

}  // namespace

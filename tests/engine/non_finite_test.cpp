// Steps that are not finite: what a policy decides, and what a run that skips them leaves as it was.
#include "libtrain/engine/non_finite.h"

#include "libtrain/engine/run_loop.h"
#include "libtrain/engine/trainer.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace trainyard {
namespace non_finite_test {

using engine::NonFinitePolicy;
using engine::StepFate;
using testing::SmallRun;

static_assert(engine::fate_of(true, NonFinitePolicy::stop) == StepFate::counts);
static_assert(engine::fate_of(true, NonFinitePolicy::skip) == StepFate::counts);
static_assert(engine::fate_of(false, NonFinitePolicy::stop) == StepFate::ends_run);
static_assert(engine::fate_of(false, NonFinitePolicy::skip) == StepFate::skipped);

engine::RunConfig small(const SmallRun& runs, const std::string& output) {
  auto c = runs.config(output);
  c.model = runs.model("small", "layers = 1\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 16\n");
  c.global_batch = 4, c.threads = 1, c.weight_decay = 0;
  return c;
}

// One rank of a run without files, with the policy of the test.
class Rank {
 public:
  Rank(const engine::RunConfig& config, int rank, int ranks, comm::ThreadsWorld& threads, NonFinitePolicy policy)
      : setup_(made(config, ranks, policy)), world_(engine::make_world("threads", rank, ranks, threads.factory(rank))),
        training_(
            config.data, setup_.index, setup_.index.train,
            {.sequence = setup_.plan.sequence, .mask = setup_.mask, .order = data::Order::keyed, .seed = config.seed}),
        batches_(training_, nullptr, setup_.plan.batch(), world_.reduction_position()),
        trainer_(setup_.plan, setup_.step, world_, batches_) {
    trainer_.store().initialize(config.seed);
  }
  engine::Trainer& trainer() { return trainer_; }
  engine::StepOutcome step(std::int64_t completed) {
    EXPECT_TRUE(trainer_.begin_step(completed, {}));
    return trainer_.finish_step();
  }
  // The bytes of this rank's weights and states, with the exact weights of the first flat group apart.
  struct Held {
    std::string bytes;
    std::vector<float> weights;
    bool operator==(const Held&) const = default;
  };
  Held held() {
    trainer_.complete_weights();
    Held out;
    auto& store = trainer_.store();
    const auto add = [&](base::View v) {
      out.bytes.append(static_cast<const char*>(v.data), static_cast<std::size_t>(v.bytes()));
    };
    for (int u = 0; u < trainer_.context().flat_groups(); ++u) {
      add(store.weights().own_shard(u));
      add(store.states().master_shard(u));
      for (std::size_t s = 0; s < store.states().kind().states.size(); ++s) add(store.states().state_shard(s, u));
    }
    const auto first = store.states().master_shard(0);
    out.weights.assign(first.ptr<float>(), first.ptr<float>() + first.count());
    return out;
  }
  // Does a step in which a weight is infinite on the rank with `infinite`, and nowhere else.
  engine::StepOutcome step_with_infinity(std::int64_t completed, bool infinite) {
    trainer_.complete_weights();
    const auto whole = trainer_.store().weights().whole(0);
    auto* first = static_cast<char*>(whole.data);
    char kept[sizeof(float)];
    std::memcpy(kept, first, sizeof kept);
    const float infinity = std::numeric_limits<float>::infinity();
    if (infinite) base::from_f32(whole.dtype, &infinity, 1, first);
    const auto outcome = step(completed);
    std::memcpy(trainer_.store().weights().whole(0).data, kept, sizeof kept);
    return outcome;
  }

 private:
  static engine::RunSetup made(const engine::RunConfig& config, int ranks, NonFinitePolicy policy) {
    auto setup = engine::make_setup(config, ranks, 1);
    setup.step.non_finite = policy;
    return setup;
  }
  engine::RunSetup setup_;
  engine::World world_;
  data::WindowDataset training_;
  engine::Batches batches_;
  engine::Trainer trainer_;
};

void on_ranks(const engine::RunConfig& config, int ranks, NonFinitePolicy policy,
              const std::function<void(Rank&, int)>& body) {
  comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
    Rank mine(config, rank, ranks, threads, policy);
    body(mine, rank);
  });
}

// Only the last rank meets infinity, and all of them skip the step. The update after it is the optimizer's first: with
// AdamW an element moves by the learning rate then, and by three quarters of it in a second update. The rate is the
// first of the warm-up, because a skipped step does not advance it.
TEST(NonFinite, ASkippedStepChangesNothingOnAnyRank) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"})
    for (const char* optimizer : {"adam", "adamw", "lamb", "lion", "muon", "sgd"})
      for (const int zero : {0, 1, 2}) {
        SCOPED_TRACE(fmt::format("{} {} ZeRO {}", dtype, optimizer, zero));
        auto c = small(runs, "skipped");
        c.warmup_steps = 10;
        c.dtype = base::dtype_from_name(dtype), c.zero = zero, c.optimizer = optimizer;
        on_ranks(c, 2, NonFinitePolicy::skip, [&](Rank& rank, int number) {
          const auto before = rank.held();
          const auto outcome = rank.step_with_infinity(0, number == 1);
          EXPECT_EQ(outcome.fate, StepFate::skipped) << "on rank " << number;
          EXPECT_FALSE(std::isfinite(outcome.loss) && std::isfinite(outcome.gradient_norm));
          EXPECT_TRUE(rank.held() == before) << "on rank " << number;
          EXPECT_EQ(rank.trainer().skipped_steps(), 1);
          const auto next = rank.step(1);
          EXPECT_EQ(next.fate, StepFate::counts);
          EXPECT_EQ(rank.trainer().skipped_steps(), 1);
          const auto after = rank.held();
          EXPECT_FALSE(after == before);
          double most = 0;
          for (std::size_t i = 0; i < after.weights.size(); ++i)
            most = std::max(most,
                            std::abs(static_cast<double>(after.weights[i]) - static_cast<double>(before.weights[i])));
          EXPECT_DOUBLE_EQ(next.learning_rate, c.learning_rate / 10);
          if (c.optimizer == "adamw") {
            EXPECT_NEAR(most / next.learning_rate, 1, 0.01);
          }
        });
      }
}

// A run that goes on after the skipped step has the bits of one that met it.
TEST(NonFinite, ATrainerGoesOnFromTheNumberOfSkippedSteps) {
  SmallRun runs;
  const auto c = small(runs, "goes-on");
  std::optional<Rank::Held> met;
  on_ranks(c, 1, NonFinitePolicy::skip, [&](Rank& rank, int) {
    EXPECT_EQ(rank.step_with_infinity(0, true).fate, StepFate::skipped);
    rank.step(1), rank.step(2);
    met = rank.held();
  });
  for (const std::int64_t skipped : {0, 1})
    on_ranks(c, 1, NonFinitePolicy::stop, [&](Rank& rank, int) {
      rank.trainer().set_skipped_steps(skipped);
      rank.step(1), rank.step(2);
      EXPECT_EQ(rank.held() == *met, skipped == 1);
    });
}

// With the policy of every run of today nothing is updated after the step, although the next one would be finite.
TEST(NonFinite, AStepThatEndsTheRunIsTheLastThatWouldUpdate) {
  SmallRun runs;
  on_ranks(small(runs, "stopped"), 2, NonFinitePolicy::stop, [](Rank& rank, int number) {
    const auto before = rank.held();
    EXPECT_EQ(rank.step_with_infinity(0, number == 1).fate, StepFate::ends_run);
    EXPECT_EQ(rank.step(1).fate, StepFate::ends_run);
    EXPECT_TRUE(rank.held() == before);
    EXPECT_EQ(rank.trainer().skipped_steps(), 0);
  });
}

TEST(NonFinite, AStepIsNotBegunBeforeItIsKnownWhetherTheOneBeforeIsSkipped) {
  SmallRun runs;
  on_ranks(small(runs, "two"), 1, NonFinitePolicy::skip, [](Rank& rank, int) {
    ASSERT_TRUE(rank.trainer().begin_step(0, {}));
    EXPECT_THROW(rank.trainer().begin_step(1, {}), std::logic_error);
    rank.trainer().finish_step();
    EXPECT_FALSE(rank.trainer().results_come_later());
  });
}

// Every step after the first is not finite, because the first one moves each weight by 1e30.
engine::RunConfig exploding(const SmallRun& runs, const std::string& output) {
  auto c = small(runs, output);
  c.learning_rate = 1e30, c.steps = 5;
  return c;
}

engine::RunResult loop_with(const engine::RunConfig& config, int ranks, NonFinitePolicy policy) {
  std::vector<engine::RunResult> results(static_cast<std::size_t>(ranks));
  comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
    auto world = engine::make_world("threads", rank, ranks, threads.factory(rank));
    auto setup = engine::make_setup(config, ranks, 1);
    setup.step.non_finite = policy;
    const engine::SignalWatcher signals;
    const engine::RunListener listener;
    engine::HeldOutput held;
    held.writer = "this test";
    if (rank == 0) held.folder = engine::take_run_folder(config.output);
    const std::string no_trace;
    const engine::RunContext context{setup, world, signals, listener, nullptr, held, no_trace};
    engine::RunLoop loop(context);
    loop.load({});
    results[static_cast<std::size_t>(rank)] = loop.go();
  });
  return results[0];
}

TEST(NonFinite, ALoopCountsAndRecordsTheStepsThatItSkips) {
  SmallRun runs;
  auto first = exploding(runs, "first");
  first.stop_after = 1;
  const auto expected = runs.run(first, {2, 0, 1}).checkpoint;
  const auto c = exploding(runs, "all");
  const auto result = loop_with(c, 2, NonFinitePolicy::skip);
  EXPECT_EQ(result.code, base::ExitCode::done);
  EXPECT_EQ(result.step, 5);
  EXPECT_TRUE(std::isfinite(result.loss.value())) << "of the last step that counts";
  const auto lines = runs.metrics(c);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_FALSE(lines[0].contains("skipped_steps"));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["skipped_steps"], i) << lines[i];
    EXPECT_FALSE(lines[i]["loss"].is_number() && lines[i]["gradient_norm"].is_number()) << lines[i];
  }
  checkpoint::Reader reader(result.checkpoint), before(expected);
  EXPECT_EQ(reader.state().step, 5);
  EXPECT_EQ(reader.state().skipped_steps, 4);
  EXPECT_EQ(before.state().skipped_steps, 0);
  EXPECT_EQ(reader.state().samples_seen, 20) << "the data of a skipped step is consumed";
  const auto tensors = reader.tensors(), same = before.tensors();
  ASSERT_EQ(tensors.size(), same.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ(tensors[i].fingerprint, same[i].fingerprint) << tensors[i].path;
  // The next start knows the number.
  auto more = c;
  more.steps = 6, more.change = "steps", more.resume = "auto";
  EXPECT_EQ(engine::choose_start(engine::make_setup(more, 2, 1), {}).skipped_steps, 4);
}

TEST(NonFinite, ALoopThatStopsNamesTheStep) {
  SmallRun runs;
  for (const bool whole : {false, true}) {
    const auto c = exploding(runs, whole ? "whole" : "loop");
    try {
      if (whole) runs.run(c, {2, 0, 1});
      else loop_with(c, 2, NonFinitePolicy::stop);
      ADD_FAILURE() << "the run ended without an error";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::check_failed);
      EXPECT_EQ(std::string(e.what()).find("step 2 is not finite: loss "), 0u) << e.what();
      EXPECT_NE(std::string(e.what()).find("micro-batch 0: "), std::string::npos) << e.what();
    }
  }
}

}  // namespace non_finite_test
}  // namespace trainyard

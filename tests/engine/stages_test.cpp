// Pipeline stages at work: copies of a tied table stay equal, and a tensor that is not finite is named as on one rank.
// A stop request ends a step at its beginning, and no list of actions waits for ever, whatever the delays.
#include "libtrain/base/random.h"
#include "libtrain/comm/delayed.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/plan/cost/memory.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <mutex>
#include <thread>

namespace trainyard {
namespace stages_test {

using testing::ParallelLayout;
using testing::SmallRun;

struct Shape {
  int stages = 1, chunks = 1, data = 1, tensor = 1, zero = 0;
  plan::PipelineSchedule schedule = plan::PipelineSchedule::one_f_one_b;
  int ranks() const { return stages * data * tensor; }
};

using Delays = std::function<std::function<void()>(int rank)>;  // what each call of a rank does first

// Runs `work` with a trainer on each rank.
void on(const engine::RunConfig& asked, const Shape& shape, const Delays& delays,
        const std::function<void(engine::Trainer&, engine::World&)>& work) {
  auto config = asked;
  config.tensor = shape.tensor, config.zero = shape.zero, config.threads = 1;
  config.pipeline = shape.stages, config.virtual_stages = shape.chunks, config.pipeline_schedule = shape.schedule;
  comm::run_ranks(shape.ranks(), [&](int rank, comm::ThreadsWorld& threads) {
    auto world = engine::make_world("threads", rank, plan::replicas_of(shape.ranks(), shape.tensor, shape.stages),
                                    threads.factory(rank));
    if (delays) {
      world.between = world.queues = [between = threads.factory(rank), rank, &delays](const std::string& name,
                                                                                      const std::vector<int>& ranks) {
        return comm::delayed(between(name, ranks), delays(rank));
      };
      world.replace_groups([&](auto group) { return comm::delayed(std::move(group), delays(rank)); });
    }
    const auto setup = engine::make_setup(config, shape.ranks(), 1);
    engine::join_neighbours(world, shape.chunks, {}, plan::sharing_stages(setup.plan.model, setup.plan.stages));
    data::WindowDataset training(
        config.data, setup.index, setup.index.train,
        {.sequence = setup.plan.sequence, .mask = setup.mask, .order = data::Order::keyed, .seed = config.seed});
    data::WindowDataset validation(
        config.data, setup.index, setup.index.validation,
        {.sequence = setup.plan.sequence, .mask = setup.mask, .order = data::Order::as_stored, .seed = config.seed});
    engine::Batches batches(training, &validation, setup.plan.batch(), world.coordinate(plan::Axis::data),
                            plan::slots_of_stage(setup.plan, setup.plan.stage_of(rank)).front());
    engine::Trainer trainer(setup.plan, setup.step, world, batches);
    trainer.store().initialize(config.seed);
    work(trainer, world);
    trainer.complete_weights();
  });
}

engine::RunConfig tied(SmallRun& runs) {
  auto c = runs.config("stages");
  c.model = runs.model("deep", "layers = 6\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 16\nlanes = 2\n");
  c.global_batch = 6;
  c.validation_sequences = 4;
  return c;
}

TEST(Stages, CopiesOfATiedTableAreEqualAfterEveryStep) {
  SmallRun runs;
  for (const int zero : {0, 1, 3}) {
    std::mutex mutex;
    std::map<std::pair<int, std::int64_t>, std::vector<std::string>> tables;  // by rank in its stage and step
    on(tied(runs), {3, 1, 2, 1, zero}, {}, [&](engine::Trainer& trainer, engine::World& world) {
      for (std::int64_t step = 0; step < 4; ++step) {
        ASSERT_TRUE(trainer.begin_step(step, [] { return false; }));
        trainer.finish_step();
        for (int u = 0; u < trainer.context().flat_groups(); ++u) {
          if (trainer.context().flat_group(u).name != "embedding.tokens") continue;
          std::string bytes;
          for (const auto& shard :
               {trainer.store().states().master_shard(u), trainer.store().states().state_shard(0, u),
                trainer.store().states().state_shard(1, u)})
            bytes.append(static_cast<const char*>(shard.data), static_cast<std::size_t>(shard.bytes()));
          std::lock_guard lock(mutex);
          tables[{world.coordinate(plan::Axis::data), step}].push_back(std::move(bytes));
        }
      }
    });
    ASSERT_EQ(tables.size(), 8u);
    for (const auto& [key, copies] : tables) {
      ASSERT_EQ(copies.size(), 2u);
      EXPECT_EQ(copies[0], copies[1]) << "ZeRO " << zero << ", step " << key.second;
    }
    EXPECT_NE((tables[{0, 0}][0]), (tables[{0, 3}][0]));
  }
}

TEST(Stages, DiagnosisIsThatOfOneRank) {
  SmallRun runs;
  const auto find = [&](const Shape& shape, const char* poisoned) {
    std::string found;
    on(tied(runs), shape, {}, [&](engine::Trainer& trainer, engine::World& world) {
      for (int u = 0; u < trainer.context().flat_groups(); ++u)
        for (std::size_t p = 0; p < trainer.context().flat_group(u).parameters.size(); ++p)
          if (trainer.context().flat_group(u).parameters[p].name == poisoned)
            trainer.store().states().master_shard(u).ptr<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      trainer.store().shards_loaded();
      const auto text = trainer.diagnose(0);
      if (world.rank == 0) found = text;
    });
    return found;
  };
  for (const char* poisoned :
       {"layers.04.attention_norm.weight", "layers.00.attention_norm.weight", "head.norm.weight"}) {
    const auto expected = find({}, poisoned);
    EXPECT_NE(expected.find("is not finite"), std::string::npos) << expected;
    EXPECT_EQ(find({3}, poisoned), expected);
    EXPECT_EQ(find({2, 2, 1, 1, 0, plan::PipelineSchedule::interleaved}, poisoned), expected);
    EXPECT_EQ(find({4, 1, 1, 1, 0, plan::PipelineSchedule::gpipe}, poisoned), expected);
  }
}

TEST(Stages, ARequestEndsAStepAtItsBeginning) {
  SmallRun runs;
  double expected = 0;
  on(tied(runs), {}, {}, [&](engine::Trainer& trainer, engine::World&) {
    ASSERT_TRUE(trainer.begin_step(0, [] { return false; }));
    expected = trainer.finish_step().loss;
  });
  on(tied(runs), {3, 1, 2, 1, 2}, {}, [&](engine::Trainer& trainer, engine::World& world) {
    int asked = 0;
    EXPECT_FALSE(trainer.begin_step(0, [&] { return ++asked, world.rank == 4; }));
    EXPECT_EQ(asked, 1);
    ASSERT_TRUE(trainer.begin_step(0, [] { return false; }));
    EXPECT_EQ(trainer.finish_step().loss, expected);
  });
}

// Waits of compute count as communication, also when a message between stages is late.
TEST(Stages, WaitsForMessagesAreCommunication) {
  SmallRun runs;
  const Delays delays = [](int) { return [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }; };
  for (const auto& known : plan::schedule_names()) {
    const auto name = known.first;
    const auto schedule = known.second;
    Shape shape{3, schedule == plan::PipelineSchedule::interleaved ? 2 : 1};
    shape.schedule = schedule;
    on(tied(runs), shape, delays, [&](engine::Trainer& trainer, engine::World& world) {
      ASSERT_TRUE(trainer.begin_step(0, [] { return false; }));
      const auto o = trainer.finish_step();
      EXPECT_GT(o.exposed_seconds, 0) << name << ", rank " << world.rank;
      // The thread that makes collectives times them, which takes a little less than the thread that waits for them.
      EXPECT_GE(o.communication_seconds, o.exposed_seconds / 2) << name << ", rank " << world.rank;
    });
  }
}

// Each case has time of its own: a case that waits for ever ends the test with its name.
TEST(Stages, RandomCasesWithRandomDelaysEnd) {
  SmallRun runs;
  const auto base = tied(runs);
  std::map<std::int64_t, double> losses;  // by global batch
  for (std::uint64_t n = 0; n < testing::by_day_or_night<std::uint64_t>(100, 200); ++n) {
    const auto words = base::random_words(11, 4, n);
    const auto other = base::random_words(11, 5, n);
    Shape shape{1 + static_cast<int>(words[0] % 4), 1, 1 + static_cast<int>(words[1] % 3),
                1 + static_cast<int>(words[2] % 2), static_cast<int>(words[3] % 4)};
    shape.schedule = plan::schedule_names()[other[0] % plan::schedule_names().size()].second;
    if (shape.stages == 1) shape.schedule = plan::PipelineSchedule::one_f_one_b;
    if (shape.schedule == plan::PipelineSchedule::interleaved) shape.chunks = 1 + static_cast<int>(other[1] % 2);
    auto config = base;
    config.global_batch = shape.data + static_cast<std::int64_t>(other[2] % 9);
    const auto name = fmt::format(
        "case {}: {} micro-batches, {} stages of {} chunks (schedule {}), tensor {}, data {}, "
        "ZeRO {}",
        n, config.global_batch, shape.stages, shape.chunks, static_cast<int>(shape.schedule), shape.tensor, shape.data,
        shape.zero);
    const Delays delays = [n](int rank) {
      auto calls = std::make_shared<std::atomic<std::uint64_t>>(0);
      return [n, rank, calls] {
        const auto wait = base::random_words(n, static_cast<std::uint64_t>(rank), (*calls)++)[0] % 8;
        if (wait > 4) std::this_thread::sleep_for(std::chrono::microseconds(100 * (wait - 4)));
      };
    };
    double loss = 0;
    auto over = std::async(std::launch::async, [&] {
      on(config, shape, delays, [&](engine::Trainer& trainer, engine::World& world) {
        ASSERT_TRUE(trainer.begin_step(0, [] { return false; }));
        const auto outcome = trainer.finish_step();
        const double validation = trainer.validate(config.validation_sequences);
        if (world.rank == 0) loss = outcome.loss + 1000 * validation;
      });
    });
    if (over.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      std::fprintf(stderr, "%s does not end\n", name.c_str());
      std::abort();
    }
    over.get();
    const auto [known, first] = losses.emplace(config.global_batch, loss);
    EXPECT_EQ(loss, known->second) << name;
  }
}

// The reserve of a GPU counts communicators (plan/cost/memory.h). It counts as many as a start makes between ranks,
// without `control`, which stays on the host.
TEST(Stages, AStartMakesTheCommunicatorsThatAPlanCounts) {
  struct Layout {
    int ranks, tensor, stages, experts, node, chunks;
    std::vector<int> sharing = {};
  };
  for (const auto& l : std::vector<Layout>{{2, 1, 1, 1, 1, 1},
                                           {4, 2, 1, 1, 1, 1},
                                           {2, 1, 2, 1, 1, 1, {0, 1}},
                                           {2, 1, 2, 1, 1, 2},
                                           {3, 1, 3, 1, 1, 1, {0, 2}},
                                           {3, 1, 3, 1, 1, 1, {0, 1, 2}},
                                           {8, 2, 2, 2, 1, 1},
                                           {12, 1, 3, 4, 2, 2, {0, 2}}}) {
    const auto topology = plan::replicas_of(l.ranks, l.tensor, l.stages, l.experts, l.node);
    std::atomic<int> most = 0;
    comm::run_ranks(l.ranks, [&](int rank, comm::ThreadsWorld& threads) {
      int made = topology.size(plan::Axis::data) < l.ranks ? 1 : 0;  // the communicator `results`
      const comm::GroupFactory counting = [&](const std::string& name, const std::vector<int>& ranks) {
        made += name == "control" || ranks.size() == 1 ? 0 : 1;
        return threads.factory(rank)(name, ranks);
      };
      auto world = engine::make_world("threads", rank, topology, counting);
      engine::join_neighbours(world, l.chunks, {}, l.sharing);
      for (int seen = most; made > seen && !most.compare_exchange_weak(seen, made);) {}
    });
    EXPECT_EQ(most, plan::gpu_communicators(topology, l.chunks, l.sharing))
        << l.ranks << " ranks, " << l.stages << " stages of " << l.chunks;
  }
}

}  // namespace stages_test
}  // namespace trainyard

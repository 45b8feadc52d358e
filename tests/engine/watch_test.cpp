// What a start gives to the watchdog in every layout: there is room for all groups, and they are the same on every
// rank.
#include "libtrain/engine/watch.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

base::ExitCode one_step(SmallRun& runs, const ParallelLayout& layout, const std::string& output) {
  auto c = runs.config(output);
  c.model = runs.model("every-group",
                       "layers = 4\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 16\n[experts]\ncount = "
                       "8\ntop-k = 2\n");
  c.sequence = 16, c.steps = 1, c.micro_batch = 1, c.global_batch = 24;
  c.hang_timeout = 60;
  return runs.run(c, layout).code;
}

// A communicator without other ranks: its calls do nothing.
struct Absent : comm::Communicator {
  Absent(const std::string& name, int rank, int size) : Communicator(name, rank, size) {}
  void all_reduce(tensor::Exec&, base::View, comm::Reduction) override {}
  void all_gather(tensor::Exec&, base::View, base::View) override {}
  void reduce_scatter(tensor::Exec&, base::View, base::View) override {}
  void all_to_all(tensor::Exec&, base::View, std::span<const std::int64_t>, base::View,
                  std::span<const std::int64_t>) override {}
  void broadcast(tensor::Exec&, base::View, int) override {}
  void exchange(tensor::Exec&, std::span<const comm::Transfer>) override {}
  void barrier(tensor::Exec&) override {}
};

// One rank of a world of any size, as a start makes it. With `nccl`, results have a communicator of their own.
engine::World rank_of(const plan::Topology& topology, int rank, int virtual_stages, bool nccl) {
  const comm::GroupFactory between = [rank](const std::string& name, const std::vector<int>& ranks) {
    const auto own = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    return std::make_unique<Absent>(name, static_cast<int>(own), static_cast<int>(ranks.size()));
  };
  auto world = engine::make_world("absent", rank, topology, between);
  engine::join_neighbours(world, virtual_stages, {}, {0, world.topology.size(plan::Axis::pipe) - 1});
  if (nccl) world.results = std::make_unique<Absent>("results", rank, world.size);
  return world;
}

std::vector<std::pair<std::string, std::vector<int>>> groups_of(const std::vector<comm::WatchedLedger>& ledgers) {
  std::vector<std::pair<std::string, std::vector<int>>> out;
  for (const auto& l : ledgers) out.emplace_back(l.group.name, l.group.number_of);
  return out;
}

TEST(Watch, EveryLayoutHasRoom) {
  std::size_t most = 0;
  int layouts = 0;
  for (const int pipeline : {1, 2, 3, 4, 5})
    for (const int virtual_stages : {1, 2})
      for (const int tensor : {1, 2})
        for (const auto& [experts, node] : {std::pair{1, 1}, {2, 1}, {4, 1}, {4, 2}, {8, 4}})
          for (const int alike : {1, 2})
            for (const bool nccl : {false, true}) {
              const int size = pipeline * tensor * experts * alike;
              if (size == 1 || (pipeline == 1 && virtual_stages > 1)) continue;
              const auto topology = plan::replicas_of(size, tensor, pipeline, experts, node);
              const auto where = fmt::format("{} ranks: {} stages of {}, tensor {}, experts {} by {}, nccl {}", size,
                                             pipeline, virtual_stages, tensor, experts, node, nccl);
              std::vector<std::pair<std::string, std::vector<int>>> of_first;
              for (const int rank : {0, size / 2, size - 1}) {
                const auto world = rank_of(topology, rank, virtual_stages, nccl);
                auto watchdog = comm::Watchdog({rank, size}, {});
                ASSERT_NO_THROW(engine::watch_calls(&watchdog, world, engine::Calls::of_steps)) << where;
                const auto ledgers = engine::watched_calls(world, engine::Calls::of_a_start);
                const auto groups = groups_of(ledgers);
                if (rank == 0) of_first = groups;
                EXPECT_EQ(groups, of_first) << where << ", rank " << rank;
                most = std::max(most, ledgers.size());
              }
              ++layouts;
            }
  EXPECT_GT(layouts, 150);
  EXPECT_EQ(most, static_cast<std::size_t>(comm::watched_limit)) << "room that nobody needs is sent in each report";
}

// The cost does not grow with the square of the number of ranks.
TEST(Watch, AsManyRanksAsThereAre) {
  const auto topology = plan::replicas_of(1 << 16, 4, 4, 8, 4);
  for (const int rank : {0, 5000, (1 << 16) - 1}) {
    const auto world = rank_of(topology, rank, 2, true);
    const auto ledgers = engine::watched_calls(world, engine::Calls::of_steps);
    ASSERT_EQ(ledgers.size(), 13u);
    for (const auto& l : ledgers) {
      const auto& numbers = l.group.number_of;
      if (l.ledger == nullptr || numbers.empty()) continue;
      EXPECT_EQ(numbers.size(), std::size_t{1} << 16);
      EXPECT_GE(numbers[static_cast<std::size_t>(rank)], 0) << l.group.name;
    }
  }
}

TEST(Watch, InterleavedStagesAndExpertsOfNodes) {
  SmallRun runs;
  ParallelLayout layout{12};
  layout.pipeline = 3, layout.schedule = "interleaved", layout.virtual_stages = 2, layout.experts = 4,
  layout.expert_ranks_per_node = 2;
  EXPECT_EQ(one_step(runs, layout, "stages"), base::ExitCode::done);
}

TEST(Watch, TensorRanksBesideThem) {
  SmallRun runs;
  ParallelLayout layout{24};
  layout.pipeline = 3, layout.schedule = "interleaved", layout.virtual_stages = 2, layout.experts = 4,
  layout.expert_ranks_per_node = 2;
  layout.tensor = 2;
  EXPECT_EQ(one_step(runs, layout, "tensor"), base::ExitCode::done);
}

}  // namespace
}  // namespace trainyard

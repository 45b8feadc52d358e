// MPI runs have the bits of runs on the threads communicator, at every ZeRO stage. A run may change from one
// communicator to the other.
#include "tests/engine/shared_run.h"

namespace trainyard {
namespace {

using testing::SharedRun;

TEST_F(SharedRun, EveryStageAsOnThreads) {
  const int n = testing::runtime->size();
  for (const std::string dtype : {"f32", "bf16"}) {
    std::string expected;
    if (testing::runtime->rank() == 0) {
      const auto config = runs_->config("threads-" + dtype);
      expected = runs_->bits(config, runs_->run(config, {1, 0, 2, dtype}));
    }
    for (int zero : {0, 1, 2, 3}) {
      const auto config = runs_->config(fmt::format("mpi-{}-{}", dtype, zero));
      const auto result = run(config, {n, zero, 1, dtype});
      if (testing::runtime->rank() == 0) {
        EXPECT_EQ(runs_->bits(config, result), expected) << n << " ranks, ZeRO " << zero << ", " << dtype;
      }
    }
  }
}

// Pairs of processes are tensor-parallel ranks, with and without sequence parallelism.
TEST_F(SharedRun, TensorRanksAsOneRank) {
  const int n = testing::runtime->size();
  if (n % 2 != 0) GTEST_SKIP() << n << " ranks are no pairs";
  for (const std::string dtype : {"f32", "bf16"}) {
    const auto small = [&](const std::string& output) {
      auto c = runs_->config(output);
      c.micro_batch = 4, c.global_batch = 12, c.steps = 6;
      c.validate_every = 3, c.validation_sequences = 8;
      return c;
    };
    std::string expected;
    if (testing::runtime->rank() == 0) {
      const auto config = small("one-" + dtype);
      expected = runs_->bits(config, runs_->run(config, {1, 0, 1, dtype}));
    }
    for (const int zero : {0, 1, 2, 3}) {
      const auto config = small(fmt::format("pairs-{}-{}", dtype, zero));
      const auto result = run(config, {n, zero, 1, dtype, "none", 2, zero % 2 == 1});
      if (testing::runtime->rank() == 0) {
        EXPECT_EQ(runs_->bits(config, result), expected) << n << " ranks, ZeRO " << zero << ", " << dtype;
      }
    }
  }
}

// Every process is a pipeline stage, or with an even number of processes, pairs of stages form two replicas.
TEST_F(SharedRun, StagesAsOneRank) {
  const int n = testing::runtime->size();
  std::string expected;
  const auto small = [&](const std::string& output) {
    auto c = runs_->config(output);
    c.steps = 6, c.validate_every = 3, c.validation_sequences = 8;
    return c;
  };
  if (testing::runtime->rank() == 0) {
    const auto config = small("one-stage");
    expected = runs_->bits(config, runs_->run(config, {}));
  }
  for (const char* schedule : {"naive", "gpipe", "1f1b", "interleaved"})
    for (const int stages : {n, n % 2 == 0 ? n / 2 : n}) {
      testing::ParallelLayout layout{n, stages == n ? 0 : 3};
      layout.pipeline = stages, layout.schedule = stages == 1 ? "1f1b" : schedule;
      if (layout.schedule == std::string("interleaved") && n <= 2) layout.virtual_stages = 2;
      const auto config = small(fmt::format("stages-{}-{}", schedule, stages));
      const auto result = run(config, layout);
      if (testing::runtime->rank() == 0) {
        EXPECT_EQ(runs_->bits(config, result), expected) << n << " ranks, " << stages << " stages, " << schedule;
      }
    }
}

// Expert parallelism over all processes or over pairs of them. One process has no micro-batch in the last accumulation
// step.
TEST_F(SharedRun, SharedExpertsAsOneRank) {
  const int n = testing::runtime->size();
  if (n == 1) GTEST_SKIP() << "one rank shares nothing";
  const auto small = [&](const std::string& output) {
    auto c = runs_->config(output);
    c.model = runs_->model("shared-experts",
                           "layers = 3\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n"
                           "dropout-ffn-residual = 0.1\n[experts]\ncount = 12\ndense-layers = 1\ntop-k = 2\n"
                           "shared = 1\ncapacity-factor = 0.75\n");
    c.steps = 4, c.global_batch = 3 * n - 1, c.validate_every = 2, c.validation_sequences = 5;
    return c;
  };
  std::string expected;
  if (testing::runtime->rank() == 0) {
    const auto config = small("all-experts");
    expected = runs_->bits(config, runs_->run(config, {}));
  }
  for (const int experts : {n, n % 2 == 0 ? 2 : n})
    for (const int chunks : {1, 12 / experts}) {
      testing::ParallelLayout layout{n, chunks == 1 ? 1 : 3};
      layout.experts = experts, layout.expert_overlap_chunks = chunks;
      layout.expert_ranks_per_node =
          experts == 4 && chunks > 1 ? 2 : 1;  // two hops: first to a rank of the own node, then to a rank of another
      const auto config = small(fmt::format("experts-{}-{}", experts, chunks));
      const auto result = run(config, layout);
      if (testing::runtime->rank() == 0) {
        EXPECT_EQ(runs_->bits(config, result), expected) << n << " ranks, experts over " << experts;
      }
    }
}

TEST_F(SharedRun, StopsOnOneAndResumesOnTheOther) {
  const int n = testing::runtime->size();
  auto config = runs_->config("from-mpi");
  config.stop_after = 9;
  testing::ParallelLayout first{n, 3, 1};
  first.zero_group = n == 4 ? 2 : 0, first.reduction_node = n == 4 ? 2 : 1;
  EXPECT_EQ(run(config, first).code, base::ExitCode::requeue);
  auto other = runs_->config("to-mpi");
  std::string expected;
  if (testing::runtime->rank() == 0) {
    const auto whole = runs_->config("whole");
    expected = runs_->bits(whole, runs_->run(whole, {2, 1, 1}));
    config.stop_after = 0;
    EXPECT_EQ(runs_->bits(config, runs_->run(config, {3, 2, 1})), expected);
    other.stop_after = 11;
    runs_->run(other, {2, 1, 1});
    other.stop_after = 0;
  }
  first.zero = n == 4 ? 3 : 2;
  const auto result = run(other, first);
  if (testing::runtime->rank() == 0) {
    EXPECT_EQ(runs_->bits(other, result), expected);
  }
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) { return trainyard::testing::run_all_on_mpi(argc, argv); }

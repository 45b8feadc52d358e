// Several GPU ranks over MPI: NCCL and the staged communicator give the bits of one rank, at every ZeRO stage. On
// machines without GPUs, stand-ins are used.
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/nccl.h"
#include "libtrain/tensor/gpu.h"
#include "tests/engine/reports.h"
#include "tests/engine/shared_run.h"

#include <algorithm>
#include <cstdlib>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SharedRun;

TEST_F(SharedRun, NcclAndStagedGiveTheBitsOfOneRank) {
  const int n = testing::runtime->size();
  const auto config = [&](const std::string& output) {
    auto c = runs_->config(output);
    c.model = runs_->model(
        "gpu", "layers = 2\nhidden = 16\nheads = 2\nkv-heads = 1\nffn = 32\ncontext = 8\ndropout-attention = 0.1\n");
    c.device = "cuda";
    c.steps = 3;
    c.global_batch = n < 4 ? 3 : 5;
    c.learning_rate = 0.01;
    return c;
  };
  std::string expected;
  if (testing::runtime->rank() == 0) {
    const auto c = config("one");
    expected = runs_->bits(c, runs_->run(c, {1, 0, 1}));
  }
  // NCCL refuses two ranks on one GPU, unless each one claims to be another host (NCCL_HOSTID).
  const bool one_each = tensor::gpu_module().runtime->device_count() >= n || std::getenv("NCCL_HOSTID") != nullptr;
  for (const std::string& communicator :
       one_each ? std::vector<std::string>{"nccl", "mpi"} : std::vector<std::string>{"mpi"})
    for (int zero : {0, 1, 2, 3}) {
      auto c = config(fmt::format("{}-{}", communicator, zero));
      c.communicator = communicator;
      const auto result = run(c, {n, zero, 1});
      if (testing::runtime->rank() == 0) {
        EXPECT_EQ(runs_->bits(c, result), expected) << n << " ranks, " << communicator << ", ZeRO " << zero;
        EXPECT_EQ(result.traffic_report.text().find(" -"), std::string::npos) << result.traffic_report.text();
        double computing =
            0;  // the sum over steps: on a busy machine a wait may begin before the end of the step before
        for (const auto& m : runs_->metrics(c)) {  // times measured by the device
          EXPECT_GT(m["communication_seconds"].get<double>(), 0) << communicator << ", ZeRO " << zero;
          EXPECT_GE(m["communication_seconds"].get<double>(), m["hidden_communication_seconds"].get<double>());
          computing += m["compute_seconds"].get<double>();
        }
        EXPECT_GT(computing, 0) << communicator << ", ZeRO " << zero;
      }
    }
}

// Two tensor-parallel ranks. Equal lanes give equal bits where products do not depend on their shapes, as on the
// emulator. A library that chooses by shape can only be close.
TEST_F(SharedRun, TensorRanksOnDevices) {
  const int n = testing::runtime->size();
  if (n != 2) GTEST_SKIP() << n << " ranks are no pair";
  const auto config = [&](const std::string& output) {
    auto c = runs_->config(output);
    c.model = runs_->model("gpu-pair",
                           "layers = 1\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 32\nlanes = "
                           "2\ndropout-attention = 0.1\n");
    c.device = "cuda";
    c.steps = 1;
    c.micro_batch = 4, c.global_batch = 4;
    return c;
  };
  engine::RunConfig one;
  std::string expected;
  if (testing::runtime->rank() == 0) {
    one = config("whole");
    expected = runs_->bits(one, runs_->run(one, {1, 0, 1}));
  }
  const bool one_each = tensor::gpu_module().runtime->device_count() >= n || std::getenv("NCCL_HOSTID") != nullptr;
  for (const std::string& communicator :
       one_each ? std::vector<std::string>{"nccl", "mpi"} : std::vector<std::string>{"mpi"}) {
    const bool rows = communicator == "nccl";
    auto c = config(fmt::format("{}-pair-{}", communicator, rows));
    c.communicator = communicator;
    const auto result = run(c, {n, 0, 1, "f32", "none", 2, rows});
    if (testing::runtime->rank() != 0) continue;
    const auto where = communicator + (rows ? ", rows shared" : "");
    if (std::string(tensor::gpu_module().runtime->name) == "emulated") {
      EXPECT_EQ(runs_->bits(c, result), expected) << where;
    }
    const auto a = runs_->metrics(c), b = runs_->metrics(one);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i]["loss"].get<double>(), b[i]["loss"].get<double>(), 1e-5) << where;
    testing::expect_no_difference({result.memory_report.text() + result.traffic_report.text()}, where);
  }
}

// Expert parallelism, with four ranks in nodes of two. The uneven last accumulation step leaves one rank without a
// micro-batch.
TEST_F(SharedRun, ExpertsOnDevices) {
  const int n = testing::runtime->size();
  const auto config = [&](const std::string& output) {
    auto c = runs_->config(output);
    c.model = runs_->model("gpu-shared-experts",
                           "layers = 2\nhidden = 16\nheads = 2\nkv-heads = 1\nffn = 32\ncontext = 8\n"
                           "dropout-attention = 0.1\n[experts]\ncount = 24\nevery = 2\ntop-k = 2\n"
                           "capacity-factor = 1\nmin-capacity = 1\n");
    c.device = "cuda";
    c.steps = 2;
    c.global_batch = 2 * n - 1;
    c.validate_every = 2, c.validation_sequences = 3;
    return c;
  };
  std::string expected;
  if (testing::runtime->rank() == 0) {
    const auto c = config("all-experts");
    expected = runs_->bits(c, runs_->run(c, {1, 0, 1}));
  }
  const bool one_each = tensor::gpu_module().runtime->device_count() >= n || std::getenv("NCCL_HOSTID") != nullptr;
  for (const std::string& communicator :
       one_each ? std::vector<std::string>{"nccl", "mpi"} : std::vector<std::string>{"mpi"})
    for (const int chunks : {1, 2}) {
      auto c = config(fmt::format("{}-shared-{}", communicator, chunks));
      c.communicator = communicator;
      ParallelLayout layout{n, chunks == 1 ? 0 : 3};
      layout.experts = n, layout.expert_overlap_chunks = chunks;
      layout.expert_ranks_per_node = n == 4 ? 2 : 1;
      const auto result = run(c, layout);
      if (testing::runtime->rank() != 0) continue;
      const auto where = fmt::format("{} ranks, {}, {} chunks", n, communicator, chunks);
      EXPECT_EQ(runs_->bits(c, result), expected) << where;
      testing::expect_no_difference({result.memory_report.text() + result.traffic_report.text()}, where);
    }
}

// Two zero groups of two ranks.
TEST_F(SharedRun, ZeroGroupsOnDevices) {
  const int n = testing::runtime->size();
  if (n != 4) GTEST_SKIP() << n << " ranks are not two groups of two";
  const auto config = [&](const std::string& output) {
    auto c = runs_->config(output);
    c.model =
        runs_->model("gpu-zero-groups", "layers = 2\nhidden = 16\nheads = 2\nkv-heads = 1\nffn = 32\ncontext = 8\n");
    c.device = "cuda";
    c.steps = 2, c.global_batch = 6;
    return c;
  };
  std::string expected;
  if (testing::runtime->rank() == 0) {
    const auto c = config("no-groups");
    expected = runs_->bits(c, runs_->run(c, {1, 0, 1}));
  }
  const bool one_each = tensor::gpu_module().runtime->device_count() >= n || std::getenv("NCCL_HOSTID") != nullptr;
  for (const std::string& communicator :
       one_each ? std::vector<std::string>{"nccl", "mpi"} : std::vector<std::string>{"mpi"}) {
    auto c = config(communicator + "-groups");
    c.communicator = communicator;
    ParallelLayout layout{n, 3};
    layout.zero_group = layout.reduction_node = 2;
    const auto result = run(c, layout);
    if (testing::runtime->rank() != 0) continue;
    EXPECT_EQ(runs_->bits(c, result), expected) << communicator;
    testing::expect_no_difference({result.memory_report.text() + result.traffic_report.text()}, communicator);
  }
}

// As many pipeline stages as ranks, with each schedule. Messages go over NCCL, whose receives are issued early, and
// through the host.
TEST_F(SharedRun, StagesOnDevices) {
  const int n = testing::runtime->size();
  const auto config = [&](const std::string& output) {
    auto c = runs_->config(output);
    c.model =
        runs_->model("gpu-stages", fmt::format("layers = {}\nhidden = 16\nheads = 2\nkv-heads = 1\nffn = 32\ncontext = "
                                               "8\ndropout-attention = 0.1\n",
                                               2 * std::max(2, n)));  // a layer for each virtual stage
    c.device = "cuda";
    c.steps = 2;
    c.global_batch = 5;
    c.validate_every = 2, c.validation_sequences = 3;
    return c;
  };
  std::string expected;
  if (testing::runtime->rank() == 0) {
    const auto c = config("one-stage");
    expected = runs_->bits(c, runs_->run(c, {1, 0, 1}));
  }
  const bool one_each = tensor::gpu_module().runtime->device_count() >= n || std::getenv("NCCL_HOSTID") != nullptr;
  for (const std::string& communicator :
       one_each ? std::vector<std::string>{"nccl", "mpi"} : std::vector<std::string>{"mpi"})
    for (const auto& [schedule, chunks] :
         {std::pair{"1f1b", 1}, {"gpipe", 1}, {"interleaved", 2}, {"zero-bubble", 1}}) {
      if (communicator == "mpi" && schedule != std::string("1f1b")) continue;
      auto c = config(fmt::format("{}-{}", communicator, schedule));
      c.communicator = communicator;
      ParallelLayout layout{n, 1};
      layout.pipeline = n, layout.schedule = schedule, layout.virtual_stages = chunks;
      const auto result = run(c, layout);
      if (testing::runtime->rank() != 0) continue;
      const auto where = fmt::format("{} stages, {}, {}", n, communicator, schedule);
      EXPECT_EQ(runs_->bits(c, result), expected) << where;
      testing::expect_no_difference({result.memory_report.text() + result.traffic_report.text()}, where);
    }
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) {
  if (!trainyard::tensor::gpu_available() || !trainyard::comm::nccl_available()) {
    std::puts("skipped: no GPU module with a device, or no NCCL");
    return 77;
  }
  return trainyard::testing::run_all_on_mpi(argc, argv);
}

// The bits of MPI runs are those of the threads communicator, at every stage, and a run may change from one to the other.
#include "libtrain/comm/mpi.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace trainyard {
namespace {

using testing::Cut;
using testing::SmallRun;

comm::MpiRuntime* runtime = nullptr;

// The folder is made by rank 0; the others are guests in it.
class SameBitsMpi : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<char, 512> path{};
    if (runtime->rank() == 0) {
      runs_.emplace();
      runs_->folder().string().copy(path.data(), path.size() - 1);
    }
    auto exec = tensor::Exec::caller(nullptr, 1);
    control_ = runtime->communicator("test");
    control_->broadcast(*exec, base::View(path.data(), base::DType::u8, {512}), 0);
    if (runtime->rank() != 0) runs_.emplace(std::filesystem::path(path.data()));
  }
  void TearDown() override {
    auto exec = tensor::Exec::caller(nullptr, 1);
    control_->barrier(*exec);   // rank 0 removes the folder when nobody needs it
  }

  engine::RunResult run(const engine::RunConfig& config, const Cut& cut) {
    auto world = engine::make_world("mpi", runtime->rank(), runtime->size(), [](const std::string& group) { return runtime->communicator(group); });
    return runs_->run_rank(config, cut, world);
  }

  std::optional<SmallRun> runs_;
  std::unique_ptr<comm::Communicator> control_;
};

TEST_F(SameBitsMpi, EveryStageAsOnThreads) {
  const int n = runtime->size();
  for (const std::string dtype : {"f32", "bf16"}) {
    std::string expected;
    if (runtime->rank() == 0) {
      const auto config = runs_->config("threads-" + dtype);
      expected = runs_->bits(config, runs_->run(config, {1, 0, 2, dtype}));
    }
    for (int zero : {0, 1, 2, 3}) {
      const auto config = runs_->config(fmt::format("mpi-{}-{}", dtype, zero));
      const auto result = run(config, {n, zero, 1, dtype});
      if (runtime->rank() == 0) {
        EXPECT_EQ(runs_->bits(config, result), expected) << n << " ranks, ZeRO " << zero << ", " << dtype;
      }
    }
  }
}

TEST_F(SameBitsMpi, StopsOnOneAndResumesOnTheOther) {
  const int n = runtime->size();
  auto config = runs_->config("from-mpi");
  config.stop_after = 9;
  EXPECT_EQ(run(config, {n, 3, 1}).code, base::ExitCode::requeue);
  auto other = runs_->config("to-mpi");
  std::string expected;
  if (runtime->rank() == 0) {
    const auto whole = runs_->config("whole");
    expected = runs_->bits(whole, runs_->run(whole, {2, 1, 1}));
    config.stop_after = 0;
    EXPECT_EQ(runs_->bits(config, runs_->run(config, {3, 2, 1})), expected);
    other.stop_after = 11;
    runs_->run(other, {2, 1, 1});
    other.stop_after = 0;
  }
  const auto result = run(other, {n, 2, 1});
  if (runtime->rank() == 0) {
    EXPECT_EQ(runs_->bits(other, result), expected);
  }
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) {
  trainyard::comm::MpiRuntime mpi;
  trainyard::runtime = &mpi;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

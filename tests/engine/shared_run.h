// A SmallRun that the ranks of an MPI job share: rank 0 makes its folder, the other ranks are guests in it.
#pragma once

#include "libtrain/comm/mpi.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>

namespace trainyard::testing {

inline comm::MpiRuntime* runtime = nullptr;

// Rank 0 makes the folder; the other ranks are guests in it.
class SharedRun : public ::testing::Test {
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
    control_->barrier(*exec);  // rank 0 removes the folder when no rank needs it any more
  }

  engine::RunResult run(const engine::RunConfig& config, const ParallelLayout& layout) {
    auto world = engine::make_world(
        "mpi", runtime->rank(),
        plan::replicas_of(runtime->size(), layout.tensor, layout.pipeline, layout.experts, layout.expert_ranks_per_node)
            .with_zero_groups(std::max(1, layout.zero_group))
            .with_reduction_nodes(layout.reduction_node),
        runtime->factory());
    if (layout.pipeline > 1) world.queues = runtime->concurrent_factory();
    return runs_->run_rank(config, layout, world);
  }

  std::optional<SmallRun> runs_;
  std::unique_ptr<comm::Communicator> control_;
};

inline int run_all_on_mpi(int argc, char** argv) {
  comm::MpiRuntime mpi;
  runtime = &mpi;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace trainyard::testing

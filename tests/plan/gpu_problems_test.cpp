// Tests plans for a GPU: what is refused only there, and the memory outside the arenas.
#include "libtrain/plan/cost/memory.h"
#include "tests/plan/small_plan.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::plan {

namespace {

Plan on_a_gpu() {
  auto p = small_plan();
  p.device = base::DeviceKind::cuda;
  return p;
}

}  // namespace

TEST(OnAGpu, AttentionHasAWidestHead) {
  auto p = on_a_gpu();
  p.model.lanes = 1, p.model.hidden = 512, p.model.heads = p.model.kv_heads = 4;  // heads of 128
  EXPECT_EQ(first_problem(p), "");
  p.model.heads = p.model.kv_heads = 2;
  EXPECT_EQ(first_problem(p), "the model's heads are 256 wide, and attention on a GPU takes heads up to 128");
  p.device = base::DeviceKind::cpu;
  EXPECT_EQ(first_problem(p), "");
}

// The reserve is above what was measured on a GPU (bench/RESULTS.md).
TEST(OnAGpu, TheReserveFollowsTheCommunicators) {
  constexpr std::int64_t mebibyte = 1 << 20;
  const auto reserve = [](std::vector<AxisSize> axes, int chunks = 1, const std::vector<int>& sharing = {0, 1}) {
    return reserve_bytes(on_a_gpu().micro(), Topology(std::move(axes)), chunks, sharing);
  };
  EXPECT_EQ(reserve({{Axis::data, 1}}), 768 * mebibyte);
  EXPECT_EQ(reserve({{Axis::data, 2}}), 1280 * mebibyte);
  EXPECT_EQ(reserve({{Axis::data, 2}, {Axis::tensor, 2}}), (768 + 448 + 3 * 64) * mebibyte);  // and results
  // The group of stages that hold the same table, two queues, results.
  EXPECT_EQ(reserve({{Axis::pipe, 2}, {Axis::data, 2}}), (768 + 448 + 5 * 64) * mebibyte);
  EXPECT_EQ(reserve({{Axis::pipe, 2}, {Axis::data, 2}}, 2), (768 + 448 + 7 * 64) * mebibyte);  // a ring: four queues
  EXPECT_EQ(reserve({{Axis::pipe, 2}, {Axis::data, 2}}, 1, {}), (768 + 448 + 4 * 64) * mebibyte);
  EXPECT_EQ(reserve({{Axis::pipe, 3}, {Axis::data, 2}, {Axis::tensor, 2}}, 1, {0, 2}), (768 + 448 + 7 * 64) * mebibyte);
  EXPECT_EQ(reserve({{Axis::pipe, 3}, {Axis::data, 2}, {Axis::tensor, 2}}, 1, {0, 1, 2}),
            (768 + 448 + 8 * 64) * mebibyte);  // the stage between has four queues, too
  EXPECT_EQ(reserve_bytes(on_a_gpu().micro(), replicas_of(16, 2, 1, 4, 2), 1), (768 + 448 + 7 * 64) * mebibyte);
  EXPECT_GT(reserve({{Axis::data, 1}}), 563'000'000);
  EXPECT_GT(reserve({{Axis::data, 2}}), 1'080'000'000);
  EXPECT_GT(reserve({{Axis::pipe, 2}, {Axis::data, 2}}), 1'160'000'000);
}

}  // namespace trainyard::plan

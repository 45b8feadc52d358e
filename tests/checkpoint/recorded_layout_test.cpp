// What a checkpoint records of its parallel layout, whatever stands there.
#include "libtrain/checkpoint/recorded_layout.h"

#include <gtest/gtest.h>

namespace trainyard::checkpoint {
namespace recorded_layout_test {

RecordedLayout layout_in(nlohmann::json plan) {
  RunState state;
  state.plan = std::move(plan);
  return recorded_layout(state);
}

TEST(RecordedLayout, ReadsWhatIsThere) {
  const auto l = layout_in({{"ranks", 16},
                            {"zero", 2},
                            {"tensor", 2},
                            {"expert_parallel", 4},
                            {"pipeline", 2},
                            {"virtual_stages", 3},
                            {"sequence_parallel", true},
                            {"schedule", "interleaved"},
                            {"gradient_sums", "bf16"},
                            {"zero_group", 8}});
  EXPECT_EQ(l.ranks, 16);
  EXPECT_EQ(l.zero, 2);
  EXPECT_EQ(l.tensor, 2);
  EXPECT_EQ(l.expert_parallel, 4);
  EXPECT_EQ(l.pipeline, 2);
  EXPECT_EQ(l.virtual_stages, 3);
  EXPECT_TRUE(l.sequence_parallel);
  EXPECT_EQ(l.pipeline_schedule, "interleaved");
  EXPECT_EQ(l.gradient_sums, base::DType::bf16);
  EXPECT_EQ(l.zero_group, 8);
  EXPECT_EQ(layout_in({{"schedule", "zero_bubble"}}).pipeline_schedule, "zero-bubble") << "plans write underscores";
}

TEST(RecordedLayout, TakesWhatItCannotReadAsNotRecorded) {
  for (const auto& plan : {nlohmann::json::object(), nlohmann::json(), nlohmann::json("text"), nlohmann::json::array(),
                           nlohmann::json{{"ranks", "16"},
                                          {"zero", 1.5},
                                          {"tensor", nullptr},
                                          {"expert_parallel", nlohmann::json::array()},
                                          {"pipeline", "2"},
                                          {"virtual_stages", true},
                                          {"sequence_parallel", "on"},
                                          {"schedule", 3},
                                          {"gradient_sums", 16},
                                          {"zero_group", "node"}}}) {
    const auto l = layout_in(plan);
    EXPECT_FALSE(l.ranks.has_value()) << plan;
    EXPECT_FALSE(l.zero.has_value()) << plan;
    EXPECT_EQ(l.tensor, 1) << plan;
    EXPECT_EQ(l.expert_parallel, 1) << plan;
    EXPECT_EQ(l.pipeline, 1) << plan;
    EXPECT_EQ(l.virtual_stages, 1) << plan;
    EXPECT_FALSE(l.sequence_parallel) << plan;
    EXPECT_EQ(l.pipeline_schedule, "") << plan;
    EXPECT_EQ(l.gradient_sums, base::DType::f32) << plan;
    EXPECT_EQ(l.zero_group, 0) << plan;
  }
}

}  // namespace recorded_layout_test
}  // namespace trainyard::checkpoint

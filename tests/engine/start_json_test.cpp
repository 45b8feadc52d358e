// What rank 0 decides about a start reaches the other ranks unchanged.
#include "libtrain/engine/start_json.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::engine {
namespace start_json_test {

template <class T> T sent(const T& value) {
  return nlohmann::json::parse(nlohmann::json(value).dump()).template get<T>();  // as value_of_rank_zero sends it
}

const std::string no_utf8 = "run \xff/step";

TEST(StartJson, KeepsAStart) {
  const Start start{.path = no_utf8,
                    .weights_only = true,
                    .step = 15,
                    .samples_seen = std::int64_t{1} << 53 | 1,  // no double holds it
                    .tokens_seen = 77,
                    .skipped_steps = 3,
                    .loss_scale = checkpoint::StoredLossScale{1024, 7, 2, 1},
                    .own = true,
                    .newest = true,
                    .damaged = {no_utf8 + "1", "other"},
                    .outlier_window = checkpoint::StoredOutlierWindow{{0.1, 1e-300}, {1.0 / 3, 5}, 2}};
  const auto again = sent(start);
  EXPECT_EQ(again.path, start.path);
  EXPECT_EQ(again.weights_only, start.weights_only);
  EXPECT_EQ(again.step, start.step);
  EXPECT_EQ(again.samples_seen, start.samples_seen);
  EXPECT_EQ(again.tokens_seen, start.tokens_seen);
  EXPECT_EQ(again.skipped_steps, start.skipped_steps);
  EXPECT_EQ(again.loss_scale, start.loss_scale);
  EXPECT_FALSE(sent(Start()).loss_scale);
  EXPECT_EQ(again.outlier_window, start.outlier_window);
  EXPECT_FALSE(sent(Start()).outlier_window);
  EXPECT_EQ(again.own, start.own);
  EXPECT_EQ(again.newest, start.newest);
  EXPECT_EQ(again.damaged, start.damaged);
  EXPECT_TRUE(sent(Start()).path.empty());
}

TEST(StartJson, KeepsLanesAndALayout) {
  const auto lanes = sent(LanesOfRun{.lanes = 4, .checkpoint = no_utf8});
  EXPECT_EQ(lanes.lanes, 4);
  EXPECT_EQ(lanes.checkpoint, no_utf8);
  const auto layout = sent(AutoLayout{.zero = 3, .recompute = plan::Recompute::layers, .text = "why"});
  EXPECT_EQ(layout.zero, 3);
  EXPECT_EQ(layout.recompute, plan::Recompute::layers);
  EXPECT_EQ(layout.text, "why");
}

}  // namespace start_json_test
}  // namespace trainyard::engine

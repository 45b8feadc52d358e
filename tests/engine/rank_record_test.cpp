// What the records of all ranks make of a step's metrics.
#include "libtrain/engine/rank_record.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace rank_record_test {

TEST(RankRecord, TimesOfTheSlowestAndTheLongestWaitForADisk) {
  engine::RankRecord one, two, three;
  one.compute = 2, one.communication = 1, one.exposed = 0.25, one.peak_bytes = 10, one.expert_rounds = 3;
  two.compute = 3, two.communication = 0.5, two.exposed = 0.5, two.peak_bytes = 8, two.expert_rounds = 1;
  three.compute = 1, three.communication = 4, three.exposed = 1, three.peak_bytes = 9;
  engine::StepMetrics m;
  engine::add_slowest({one, two, three}, m);
  EXPECT_EQ(m.compute_seconds, 3);
  EXPECT_EQ(m.communication_seconds, 0.5);
  EXPECT_EQ(m.hidden_communication_seconds, 0);
  EXPECT_EQ(m.peak_bytes, 10);
  EXPECT_EQ(m.expert_rounds, 3);
  EXPECT_FALSE(m.disk_wait_seconds) << "nothing is offloaded";
  one.disk_wait = 0.5, three.disk_wait = 0.75;  // of another rank than the slowest
  engine::add_slowest({one, two, three}, m);
  EXPECT_EQ(m.disk_wait_seconds, 0.75);
  one.disk_wait = two.disk_wait = three.disk_wait = 0;
  m = {};
  engine::add_slowest({one, two, three}, m);
  EXPECT_EQ(m.disk_wait_seconds, 0) << "a step that never waits says so";
}

}  // namespace rank_record_test
}  // namespace trainyard

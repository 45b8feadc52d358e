// What the saver writes of the world that it stands on.
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard {

using plan::Axis;

// The grid in a manifest is the world's own, with all of its axes.
TEST(Saver, ACheckpointNamesTheAxesOfTheWorld) {
  testing::SmallRun small;
  auto config = small.config("run");
  config.steps = 1;
  const testing::Cut cut{2};
  comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& threads) {
    engine::World world("threads", rank, plan::Topology({{Axis::pipe, 1}, {Axis::data, 2}}), threads.factory(rank),
                        {plan::Axes{Axis::data}});
    world.communication = tensor::Exec::worker("communication", nullptr);
    small.run_rank(config, cut, world);
  });
  checkpoint::Reader reader(config.output + "/checkpoints/step-00000001");
  const auto& m = reader.manifest();
  ASSERT_EQ(m.axes.size(), 2u);
  EXPECT_EQ(m.axes[0].axis + m.axes[1].axis, "pipedata");
  EXPECT_EQ(m.coordinates, (std::vector<std::vector<int>>{{0, 0}, {0, 1}}));
}

}  // namespace trainyard

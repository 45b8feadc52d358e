// Layouts with as many groups as there can be: a start gives all of them to the watchdog.
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

using testing::Cut;
using testing::SmallRun;

base::ExitCode one_step(SmallRun& runs, const Cut& cut, const std::string& output) {
  auto c = runs.config(output);
  c.model = runs.model("every-group",
                       "layers = 4\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 16\n[experts]\ncount = "
                       "8\ntop-k = 2\n");
  c.sequence = 16, c.steps = 1, c.micro_batch = 1, c.global_batch = 24;
  c.hang_timeout = 60;
  return runs.run(c, cut).code;
}

TEST(Watch, InterleavedStagesAndExpertsOfNodes) {
  SmallRun runs;
  Cut cut{12};
  cut.pipeline = 3, cut.schedule = "interleaved", cut.virtual_stages = 2, cut.experts = 4, cut.expert_node = 2;
  EXPECT_EQ(one_step(runs, cut, "stages"), base::ExitCode::done);
}

TEST(Watch, TensorRanksBesideThem) {
  SmallRun runs;
  Cut cut{24};
  cut.pipeline = 3, cut.schedule = "interleaved", cut.virtual_stages = 2, cut.experts = 4, cut.expert_node = 2;
  cut.tensor = 2;
  EXPECT_EQ(one_step(runs, cut, "tensor"), base::ExitCode::done);
}

}  // namespace
}  // namespace trainyard

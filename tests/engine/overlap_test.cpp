// Overlap: gathers and reductions of stage 3 hide behind computation, read from the metrics of one run; the bits do not change.
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trainyard {
namespace {

using testing::SmallRun;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<double> column(const std::vector<nlohmann::json>& metrics, const char* name) {
  std::vector<double> out;
  for (const auto& m : metrics) out.push_back(m[name].get<double>());
  return out;
}

// Each call sleeps 5 ms, or less where this machine computes so fast that 5 ms a call would exceed the computation that could hide it.
TEST(Overlap, HidesAtLeastHalfOfADelayedCommunicator) {
  SmallRun runs;
  auto config = runs.config("plain");
  config.model = runs.model("wide", "layers = 4\nhidden = 192\nheads = 4\nkv-heads = 4\nffn = 768\ncontext = 192\n");
  config.global_batch = 8;
  config.micro_batch = 4;
  config.steps = 6;
  const auto expected = runs.bits(config, runs.run(config, {2, 3, 1}));
  const double compute = median(column(SmallRun::metrics(config), "compute_seconds"));
  constexpr double calls = 6 + 6 + 4 + 7;   // leases of forward and backward (4 layers, tables, head) and reductions of one micro-batch
  auto slow = config;
  slow.output += "-slow";
  slow.collective_delay = std::min(0.005, 0.6 * compute / calls);
  EXPECT_EQ(runs.bits(slow, runs.run(slow, {2, 3, 1})), expected);
  const auto metrics = SmallRun::metrics(slow);
  const double communication = median(column(metrics, "communication_seconds")), hidden = median(column(metrics, "hidden_communication_seconds"));
  EXPECT_GT(communication, calls * slow.collective_delay * 0.8) << "the delay is not felt";
  EXPECT_GT(hidden, 0.5 * communication) << "compute " << compute << " s a step, " << slow.collective_delay << " s a call";
}

}  // namespace
}  // namespace trainyard

// Overlap: gathers and reductions hide behind computation at every stage that cuts, read from the metrics of one run; the bits do not change, so nothing is used before it is there.
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

// Runs on two ranks, six steps, of a model whose computation can hide something.
class Overlap : public ::testing::Test {
 protected:
  engine::RunConfig config() {
    auto c = runs_.config("plain");
    c.model = runs_.model("wide", "layers = 4\nhidden = 192\nheads = 4\nkv-heads = 4\nffn = 768\ncontext = 192\n");
    c.global_batch = 8;
    c.micro_batch = 4;
    c.steps = 6;
    return c;
  }

  // Each call sleeps 5 ms, or less where this machine computes so fast that 5 ms a call would exceed the computation that could hide it. `calls`: of a rank in a step.
  void expect_half_hidden(int zero, double calls, const std::string& expected) {
    auto slow = config();
    const double compute = median(column(SmallRun::metrics(slow), "compute_seconds"));
    slow.output += fmt::format("-slow-{}", zero);
    slow.collective_delay = std::min(0.005, 0.6 * compute / calls);
    EXPECT_EQ(runs_.bits(slow, runs_.run(slow, {2, zero, 1})), expected) << "ZeRO " << zero;
    const auto metrics = SmallRun::metrics(slow);
    const double communication = median(column(metrics, "communication_seconds")), hidden = median(column(metrics, "hidden_communication_seconds"));
    EXPECT_GT(communication, calls * slow.collective_delay * 0.8) << "ZeRO " << zero << ": the delay is not felt in the step";
    EXPECT_GT(hidden, 0.5 * communication) << "ZeRO " << zero << ": compute " << compute << " s a step, " << slow.collective_delay << " s a call";
    RecordProperty("hidden", std::to_string(hidden / communication));
  }

  SmallRun runs_;
};

// 4 layers, two tables and the head are leased forward, the layers, the token table and the head backward; a gradient of each is reduced, two of the token table.
constexpr double units = 7, leases = 7 + 6, reductions = 8;

// Stage 3 gathers for every lease, stage 1 after the update: behind the next forward.
TEST_F(Overlap, GathersAndReductionsHideBehindComputation) {
  const auto plain = config();
  const auto expected = runs_.bits(plain, runs_.run(plain, {2, 3, 1}));
  expect_half_hidden(3, leases + reductions, expected);
  expect_half_hidden(1, units + reductions, expected);
}

}  // namespace
}  // namespace trainyard

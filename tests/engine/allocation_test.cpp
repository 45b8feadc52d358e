// No heap allocation above 4 KiB inside a step after the second. The malloc of tests/heap.h sees every allocation of
// the process.
#include "tests/engine/small_run.h"
#include "tests/heap.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

// Watches from the end of step 2 to the end of the last step but one. At both ends every rank is within a step of rank
// 0.
void expect_no_large_allocation(SmallRun& runs, const engine::RunConfig& config, const ParallelLayout& layout) {
  heap::large = heap::largest = heap::seen = 0;
  const engine::RunListener listener{[&](const engine::StepMetrics& m, std::int64_t steps) {
                                       if (m.step == 2) heap::watching = true;
                                       if (m.step == steps - 1) heap::watching = false;
                                     },
                                     {}};
  runs.run(config, layout, listener);
  EXPECT_GT(heap::seen, 0) << "nothing was watched";
  EXPECT_EQ(heap::large, 0) << "the largest has " << heap::largest << " bytes: " << layout.ranks << " ranks, ZeRO "
                            << layout.zero << ", " << layout.dtype << ", " << config.model;
}

TEST(Allocation, TheWatchSeesLargeOnes) {
  heap::large = 0;
  heap::watching = true;
  std::vector<char> big(static_cast<std::size_t>(heap::limit_bytes + 1));

  heap::watching = false;
  EXPECT_EQ(heap::large, 1) << static_cast<const void*>(big.data());
}

TEST(Allocation, NoneAbove4KiBInAStep) {
  SmallRun runs;
  int n = 0;
  for (const auto& model : {runs.gpt(), runs.llama()})
    for (int zero : {0, 1, 2, 3})
      for (int ranks : {1, 2, 3}) {
        auto c = runs.config(fmt::format("allocation-{}", n));
        c.model = model;
        c.steps = 6;
        c.local_accumulation = n % 2 == 0 ? 1 : 2;
        c.micro_batch = n % 4 < 2 ? 1 : 2;
        c.global_batch = 8 * c.micro_batch;
        c.document_mask = n % 3 == 0 ? "on" : "off";
        expect_no_large_allocation(runs, c,
                                   {ranks, zero, 2, n % 2 == 0 ? "bf16" : "f32", n % 5 == 0 ? "full" : "none"});
        ++n;
      }
}

// The metrics of gates are read where they were received, without a copy.
TEST(Allocation, NoneAbove4KiBInAStepOfExperts) {
  SmallRun runs;
  for (int ranks : {1, 2}) {
    auto c = runs.config(fmt::format("allocation-experts-{}", ranks));
    c.model = runs.model("allocation-experts",
                         "layers = 4\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 32\ncontext = 32\nexperts-count = "
                         "160\n");  // 4 x 165 numbers take more than 4 KiB
    c.steps = 6;
    c.global_batch = 8;
    expect_no_large_allocation(runs, c, {ranks, 1, 2});
  }
}

// The table of kernels is reserved before the first step.
TEST(Allocation, NoneAbove4KiBInAProfiledStep) {
  SmallRun runs;
  for (int ranks : {1, 2}) {
    auto c = runs.config(fmt::format("profiled-{}", ranks));
    c.steps = 6;
    c.profile_step = true;
    expect_no_large_allocation(runs, c, {ranks, 2, 1});
  }
}

// Spans lie in memory that their thread reserved with its first span.
TEST(Allocation, NoneAbove4KiBInATracedStep) {
  SmallRun runs;
  for (int ranks : {1, 2}) {
    auto c = runs.config(fmt::format("traced-{}", ranks));
    c.steps = 6;
    c.trace = c.output + ".json";
    expect_no_large_allocation(runs, c, {ranks, 2, 1});
  }
}

}  // namespace
}  // namespace trainyard

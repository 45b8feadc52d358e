// Slow collectives change no bit at a sharded ZeRO stage, so nothing is used before it has arrived.
// tests/params/overlap_test.cpp counts how far computation goes on meanwhile.
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

using testing::SmallRun;

TEST(Overlap, SlowCollectivesChangeNoBit) {
  SmallRun runs;
  auto plain = runs.config("plain");
  plain.steps = 3;
  const auto expected = runs.bits(plain, runs.run(plain, {2, 3, 1}));
  for (const int zero : {1, 2, 3}) {
    auto slow = plain;
    slow.output += fmt::format("-slow-{}", zero);
    slow.collective_delay = 0.002;
    EXPECT_EQ(runs.bits(slow, runs.run(slow, {2, zero, 1})), expected) << "ZeRO " << zero;
    for (const auto& m : SmallRun::metrics(slow)) {
      const double communication = m["communication_seconds"], hidden = m["hidden_communication_seconds"];
      EXPECT_GE(hidden, 0) << "ZeRO " << zero;
      EXPECT_LE(hidden, communication) << "ZeRO " << zero;
    }
  }
}

// Slow all-to-alls of experts change no bit: no row is used before it has arrived, whole or in overlap chunks. With
// chunks, a part of the all-to-alls is hidden behind work on other chunks.
TEST(Overlap, SlowRowsOfExpertsChangeNoBit) {
  SmallRun runs;
  auto plain = runs.config("plain");
  plain.model = runs.model("experts",
                           "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n"
                           "[experts]\ncount = 8\ntop-k = 2\n");
  plain.steps = 2, plain.global_batch = 7;
  const auto expected = runs.bits(plain, runs.run(plain, {}));
  for (const int chunks : {1, 2, 4}) {
    auto slow = plain;
    slow.output += fmt::format("-slow-{}", chunks);
    slow.collective_delay = 0.002;
    testing::ParallelLayout layout{2, 1};
    layout.experts = 2, layout.expert_overlap_chunks = chunks;
    EXPECT_EQ(runs.bits(slow, runs.run(slow, layout)), expected) << chunks << " chunks";
    for (const auto& m : SmallRun::metrics(slow)) {
      const double communication = m["communication_seconds"], hidden = m["hidden_communication_seconds"];
      EXPECT_GE(hidden, 0) << chunks;
      EXPECT_LE(hidden, communication) << chunks;
    }
  }
}

}  // namespace
}  // namespace trainyard

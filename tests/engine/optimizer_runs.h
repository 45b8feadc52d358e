// Runs of an optimizer whose ranks compute together before an update: the same bits on every layout, with experts, and
// after a resume from a resharded checkpoint; memory and traffic as planned.
#pragma once

#include "libtrain/checkpoint/reshard.h"
#include "libtrain/engine/run_folder.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace trainyard::testing {

// The settings of a run whose output has this name.
using OptimizerConfig = std::function<engine::RunConfig(const SmallRun& runs, const std::string& output)>;

inline std::string short_text_of(const ParallelLayout& l) {
  return fmt::format("{}-{}-zero{}-t{}-p{}-e{}-a{}", l.dtype, l.ranks, l.zero, l.tensor, l.pipeline, l.experts,
                     l.threads);
}

// By day each layout has one of the two dtypes.
inline void expect_same_bits_on_every_layout(const OptimizerConfig& config, const std::vector<std::string>& states) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"}) {
    const auto alone = config(runs, std::string("alone-") + dtype);
    const auto expected = runs.bits(alone, runs.run(alone, {1, 0, 1, dtype}));
    for (const auto& state : states)
      EXPECT_NE(expected.find(fmt::format("/optimizer/{}/layers.00.attention.q.weight", state)), std::string::npos);
    bool turn = dtype == std::string("f32");
    for (const auto& layout :
         {ParallelLayout{1, 2, 2, dtype}, ParallelLayout{2, 0, 1, dtype}, ParallelLayout{2, 1, 2, dtype},
          ParallelLayout{3, 0, 1, dtype}, ParallelLayout{3, 2, 1, dtype}, ParallelLayout{2, 3, 1, dtype, "full"},
          ParallelLayout{2, 0, 1, dtype, "none", 2}, ParallelLayout{4, 3, 1, dtype, "none", 2},
          ParallelLayout{4, 1, 1, dtype, "none", 4}, ParallelLayout{2, 0, 1, dtype, "none", 1, false, 2},
          ParallelLayout{4, 1, 1, dtype, "none", 2, false, 2}}) {
      turn = !turn;
      if (!at_night() && turn) continue;
      auto c = config(runs, short_text_of(layout));
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
      expect_no_difference(runs.reports(), c.output);
    }
  }
}

// By day a layout that has room for two expert-parallel ranks has them, or one at ZeRO 3.
inline void expect_same_bits_with_experts(const OptimizerConfig& config) {
  SmallRun runs;
  auto alone = config(runs, "experts");
  alone.model = runs.model("experts",
                           "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n"
                           "[experts]\ncount = 4\ntop-k = 2\nresidual = true\n");
  alone.global_batch = 8, alone.steps = 6;
  const auto expected = runs.bits(alone, runs.run(alone, {1, 0, 1}));
  for (auto layout : {ParallelLayout{2, 1, 1}, ParallelLayout{2, 2, 1, "f32", "none", 2}, ParallelLayout{4, 3, 1},
                      ParallelLayout{4, 0, 1}, ParallelLayout{4, 1, 1, "f32", "none", 2}}) {
    for (const int expert_parallel : {1, 2}) {
      const int replicas = layout.ranks / layout.tensor;
      if (replicas % expert_parallel != 0) continue;
      if (!at_night() && replicas % 2 == 0 && expert_parallel != (layout.zero == 3 ? 1 : 2)) continue;
      layout.experts = expert_parallel;
      auto c = config(runs, "experts-" + short_text_of(layout));
      c.model = alone.model, c.global_batch = alone.global_batch, c.steps = alone.steps;
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
      expect_no_difference(runs.reports(), c.output);
    }
  }
}

// The checkpoint is also resharded on the way.
inline void expect_same_bits_after_resumes(const OptimizerConfig& config) {
  SmallRun runs;
  const auto whole = config(runs, "whole");
  const auto expected = runs.bits(whole, runs.run(whole, {1, 0, 1}));
  auto c = config(runs, "stopped");
  c.stop_after = 3;
  runs.run(c, {3, 0, 1});
  c.stop_after = 6;
  const auto from = runs.run(c, {4, 3, 1, "f32", "none", 2}).checkpoint;
  const auto next = (runs.folder() / "resharded").string();
  checkpoint::ReshardOptions options;
  options.history = engine::history_through(from, 6);
  checkpoint::reshard(checkpoint::Reader(from), next, {2, {}, 1, {}, {}, 2}, options);
  c.stop_after = 0, c.resume = next;
  EXPECT_EQ(runs.bits(c, runs.run(c, {4, 1, 1, "f32", "none", 2})), expected);
}

}  // namespace trainyard::testing

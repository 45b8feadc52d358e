// Runs whose layers have their inputs on disk between forward and backward: the bits of a run in memory over a covering
// array of layouts, predicted memory and bytes of the disk, growing batches, resumes, and runs without states on disk.
#include "tests/engine/every_layout.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace same_bits_activations_test {

using testing::ParallelLayout;
using testing::SmallRun;

// What is on disk, tensor and sequence parallelism, pipeline stages, ZeRO stage, data-parallel degree, dtype, local
// accumulation, model, order of accumulation.
constexpr std::array<int, 9> levels = {4, 3, 3, 4, 3, 2, 2, 4, 2};
using Choice = testing::Choice<levels.size()>;

std::string offload_of(const Choice& c) {
  const std::array<const char*, 4> all = {"activations=disk", "activations=disk:0.4", "activations=disk,optimizer=disk",
                                          "activations=disk:0.7,optimizer=disk:0.5,parameters=disk"};
  const int level = c[0] == 3 && c[3] != 3 ? 2 : c[0];
  return level >= 2 && c[3] == 0 && c[4] > 0 ? all[1] : all[static_cast<std::size_t>(level)];
}

ParallelLayout layout_of(const Choice& c) {
  ParallelLayout layout;
  testing::share_layers(layout, c[1]);
  layout.breadth_first = c[8] == 1;
  testing::put_into_stages(layout, layout.breadth_first && c[2] == 2 ? 1 : c[2]);
  if (layout.breadth_first && layout.pipeline > 1) layout.schedule = "gpipe";
  layout.zero = c[3];
  layout.ranks = (c[4] + 1) * layout.tensor * layout.pipeline;
  layout.recompute = c[6] == 0 ? "full" : "full:0.6,selective:0.2";
  layout.dtype = c[5] == 0 ? "f32" : "bf16";
  if (c[7] == 2) layout.experts = c[4] + 1;
  return layout;
}

std::string model_of(const SmallRun& runs, int model) {
  const std::array<const char*, 4> lines = {
      "dropout-embedding = 0.1\ndropout-attention-residual = 0.2\n",
      "norm = \"rms\"\npositions = \"rotary\"\nactivation = \"swiglu\"\nbiases = \"off\"\ntied = \"off\"\n"
      "norm-position = \"sandwich\"\n",
      "dropout-attention = 0.1\n[experts]\ncount = 12\nevery = 2\ntop-k = 2\nnoise = \"gumbel\"\n"
      "capacity-factor = 1\n",
      "norm-position = \"post\"\nembedding-norm = \"on\"\nsegments = 2\nhead = \"masked\"\n"};
  return runs.model(fmt::format("activations-{}", model),
                    std::string("layers = 4\nhidden = 32\nheads = 4\nffn = 64\ncontext = 32\nlanes = 2\n") +
                        lines[static_cast<std::size_t>(model)]);
}

// Ten micro-batches of 128 tokens, which three data-parallel ranks share unevenly.
engine::RunConfig config_of(const SmallRun& runs, const Choice& c, const std::string& output) {
  auto config = runs.config("activations-" + output);
  config.model = model_of(runs, c[7]);
  config.steps = 3, config.micro_batch = 4, config.global_batch = 40, config.local_accumulation = c[6] + 1;
  config.validate_every = 2, config.validation_sequences = 12;
  config.offload_dir = runs.folder().string();
  return config;
}

TEST(SameBitsActivations, EveryPair) {
  SmallRun runs;
  std::map<std::tuple<int, int, int>, std::string> expected;
  int number = 0;
  for (const auto& c : testing::choices_of_pairs(levels)) {
    const auto layout = layout_of(c);
    auto& want = expected[{c[5], c[6], c[7]}];
    if (want.empty()) {
      auto config = config_of(runs, c, fmt::format("one-{}", number));
      config.steps = 2;
      want = runs.bits(config, runs.run(config, {1, 0, 1, layout.dtype}));
    }
    auto config = config_of(runs, c, fmt::format("cut-{}", number));
    config.steps = 2;  // one from initial values, one from updated ones
    const auto offload = offload_of(c);
    config.offload = plan::offload_of_text(offload, "test");
    const auto text = fmt::format("{}; {}, {}, model {}, local accumulation {}", testing::text_of(layout), offload,
                                  layout.breadth_first ? "breadth" : "depth", c[7], c[6] + 1);
    EXPECT_EQ(runs.bits(config, runs.run(config, layout)), want) << text;
    const int replicas = layout.ranks / layout.tensor / layout.pipeline;
    const plan::BatchPlan batch{config.global_batch, config.micro_batch, config.local_accumulation, replicas};
    testing::expect_no_difference(runs.reports(), text, [&](std::size_t rank) {
      const auto r = static_cast<int>(rank) / layout.tensor % replicas;
      return batch.micros_of(r) < batch.micros_of(0);
    });
    for (const auto& report : runs.reports()) {
      EXPECT_NE(report.find("read in steps"), std::string::npos) << text;
      EXPECT_NE(report.find("offload buffers"), std::string::npos) << text;
    }
    std::filesystem::remove_all(config.output);
    ++number;
  }
}

// A batch that grows from two micro-batches to six: every size has its own list of reads.
TEST(SameBitsActivations, GrowingBatches) {
  SmallRun runs;
  for (const bool breadth : {false, true}) {
    auto c = config_of(runs, {}, breadth ? "grows-breadth" : "grows");
    c.global_batch = 24, c.steps = 6, c.local_accumulation = 1;
    c.batch_ramp = plan::ramp_of_text("8:24:8/48", "test").ramp;
    const auto expected = runs.bits(c, runs.run(c, {1, 0, 1, "f32"}));
    c.output += "-disk", c.offload = plan::offload_of_text("activations=disk", "test");
    ParallelLayout layout{.ranks = 2, .zero = 3, .recompute = "full", .breadth_first = breadth};
    EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected);
    testing::expect_no_difference(runs.reports(), c.output);
  }
}

// Checkpoints know nothing of inputs. Saves stay in the background where no state is on disk.
TEST(SameBitsActivations, ResumesElsewhere) {
  SmallRun runs;
  auto c = config_of(runs, {}, "whole");
  c.steps = 6;
  const auto expected = runs.bits(c, runs.run(c, {1, 0, 1, "bf16"}));
  auto moved = config_of(runs, {}, "moved");
  moved.steps = 6, moved.save_every = 2;
  const auto run_until = [&](std::int64_t step, const ParallelLayout& layout, const char* text) {
    moved.stop_after = step, moved.offload = plan::offload_of_text(text, "test");
    return runs.run(moved, layout);
  };
  run_until(2, {.ranks = 2, .zero = 1, .dtype = "bf16", .recompute = "full"}, "activations=disk");
  run_until(3, {.ranks = 1, .zero = 0, .dtype = "bf16"}, "none");
  run_until(5, {.ranks = 2, .zero = 3, .dtype = "bf16", .recompute = "full", .breadth_first = true},
            "activations=disk:0.5,optimizer=disk,parameters=disk");
  const auto last = run_until(0, {.ranks = 1, .dtype = "bf16", .recompute = "full"}, "activations=disk");
  EXPECT_EQ(runs.bits(moved, last), expected);
}

// Steps that overflow change nothing, and the steps after them read their own inputs.
TEST(SameBitsActivations, SkippedSteps) {
  SmallRun runs;
  auto c = config_of(runs, {}, "skips");
  c.steps = 14, c.loss_scale = "dynamic:4294967296,4,1";
  const auto expected = runs.bits(c, runs.run(c, {1, 0, 1, "f16"}));
  ASSERT_GT(SmallRun::metrics(c).back().value("skipped_steps", 0), 0) << "this run is to overflow";
  c.output += "-disk", c.offload = plan::offload_of_text("activations=disk", "test");
  EXPECT_EQ(runs.bits(c, runs.run(c, {.ranks = 2, .zero = 2, .dtype = "f16", .recompute = "full"})), expected);
}

// Whole optimizers may go with activations on disk.
TEST(SameBitsActivations, AnyOptimizer) {
  SmallRun runs;
  for (const char* optimizer : {"lamb", "muon", "adafactor"}) {
    auto c = config_of(runs, {}, optimizer);
    c.optimizer = optimizer, c.steps = 2;
    const auto expected = runs.bits(c, runs.run(c, {1, 0, 1, "f32"}));
    c.output += "-disk", c.offload = plan::offload_of_text("activations=disk", "test");
    EXPECT_EQ(runs.bits(c, runs.run(c, {.ranks = 2, .zero = 1, .recompute = "full", .breadth_first = true})), expected)
        << optimizer;
    testing::expect_no_difference(runs.reports(), optimizer);
  }
}

}  // namespace same_bits_activations_test
}  // namespace trainyard

// Runs whose states lie on disk: the bits of a run in memory on every layout; predicted memory and bytes of the disk;
// resumes from disk to memory and back; steps that are skipped; refusals.
#include "libtrain/base/error.h"
#include "libtrain/engine/setup.h"
#include "tests/engine/every_layout.h"
#include "tests/night.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

namespace trainyard {
namespace same_bits_offload_test {

using testing::ParallelLayout;
using testing::SmallRun;

// What is on disk, tensor and sequence parallelism, pipeline stages, ZeRO stage, data-parallel degree, recomputation,
// dtype, optimizer with the dtype of sums of gradients, experts.
constexpr std::array<int, 9> levels = {6, 3, 3, 4, 3, 3, 2, 4, 2};
using Choice = testing::Choice<levels.size()>;

// What the ZeRO stage lets lie on disk.
std::string offload_of(const Choice& c) {
  const std::array<const char*, 6> all = {"optimizer=disk",
                                          "optimizer=disk:0.4",
                                          "optimizer=disk,parameters=disk",
                                          "parameters=disk:0.5",
                                          "optimizer=disk:0.7,parameters=disk,gradients=disk",
                                          "optimizer=disk,gradients=disk:0.6"};
  const auto zero = c[3];
  if (zero == 3) return all[static_cast<std::size_t>(c[0])];
  if (zero == 2) return c[0] % 2 == 0 ? all[5] : all[0];
  return all[static_cast<std::size_t>(c[0] % 2)];
}

ParallelLayout layout_of(const Choice& c) {
  ParallelLayout layout;
  testing::share_layers(layout, c[1]);
  testing::put_into_stages(layout, c[2]);
  layout.zero = c[3];
  layout.ranks = (c[3] == 0 ? 1 : c[4] + 1) * layout.tensor * layout.pipeline;
  layout.recompute = testing::recomputation_of_level(c[5]);
  layout.dtype = c[6] == 0 ? "f32" : "bf16";
  // Gradients leave when their sum is complete: in the only accumulation step, or breadth first.
  layout.breadth_first = layout.pipeline == 1 && offload_of(c).find("gradients") != std::string::npos;
  if (c[8] == 1 && layout.ranks / layout.tensor / layout.pipeline == 2) layout.experts = 2;
  return layout;
}

// Six micro-batches of 128 tokens in a step.
engine::RunConfig config_of(const SmallRun& runs, const Choice& c, const std::string& output) {
  auto config = runs.config("offload-" + output);
  const std::array<const char*, 4> optimizers = {"adamw", "lion", "sgd", "adam"};
  config.optimizer = optimizers[static_cast<std::size_t>(c[7])];
  if (c[7] % 2 == 1) config.gradient_sums = base::DType::bf16;
  config.model = runs.model(fmt::format("offload-{}", c[8]),
                            fmt::format("layers = 4\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n"
                                        "dropout-ffn-residual = 0.1\n{}",
                                        c[8] == 0 ? ""
                                                  : "[experts]\ncount = 4\nevery = 2\ntop-k = 2\nscore = "
                                                    "\"sigmoid\"\nbias-rate = 0.05\ncapacity-factor = \"none\"\n"));
  config.steps = 3, config.micro_batch = 4, config.global_batch = 24;
  config.validate_every = 2, config.validation_sequences = 4;
  config.offload_dir = runs.folder().string();
  return config;
}

testing::LayoutChoices<levels.size()> choices() {
  return {levels,
          layout_of,
          [](SmallRun& runs, const Choice& c, const std::string& output) {
            auto config = config_of(runs, c, output);
            config.steps = 2;                              // one from initial values, one from updated ones
            if (output.starts_with("one")) return config;  // in memory
            auto text = offload_of(c);
            if (!layout_of(c).breadth_first) text = text.substr(0, text.find(",gradients"));
            config.offload = plan::offload_of_text(text, "test");
            return config;
          },
          {7, 8}};
}

TEST(SameBitsOffload, EveryPair) {
  SmallRun runs;
  testing::expect_every(testing::Strength::pairs, runs, choices());
}
TEST(SameBitsOffload, DISABLED_EveryTriple) {
  SmallRun runs;
  testing::expect_every(testing::Strength::triples, runs, choices());
}

// Each rank has one micro-batch, so gradients leave for the disk, too. With weights in bf16 their sums are rounded.
TEST(SameBitsOffload, Gradients) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"}) {
    auto c = config_of(runs, {}, std::string("gradients-") + dtype);
    c.global_batch = 8;
    const auto wide = runs.bits(c, runs.run(c, {1, 0, 1, dtype}));
    if (dtype == std::string("bf16")) c.gradient_sums = base::DType::bf16, c.output += "-rounded";
    const auto expected = runs.bits(c, runs.run(c, {1, 0, 1, dtype}));
    EXPECT_EQ(expected == wide, dtype == std::string("f32")) << "no sum was rounded";
    int number = 0;
    for (const auto& [layout, text] :
         {std::pair(ParallelLayout{2, 2, 1, dtype}, "gradients=disk"),
          std::pair(ParallelLayout{2, 3, 1, dtype}, "optimizer=disk,parameters=disk,gradients=disk"),
          std::pair(ParallelLayout{4, 3, 1, dtype, "full", 2, true}, "gradients=disk:0.5,parameters=disk"),
          std::pair(ParallelLayout{4, 2, 1, dtype, "none", 1, false, 2}, "optimizer=disk,gradients=disk"),
          std::pair(ParallelLayout{.zero = 3, .dtype = dtype, .recompute = "full", .breadth_first = true},
                    "optimizer=disk,parameters=disk,gradients=disk")}) {
      auto on_disk = c;
      on_disk.output += fmt::format("-{}", number++), on_disk.offload = plan::offload_of_text(text, "test");
      EXPECT_EQ(runs.bits(on_disk, runs.run(on_disk, layout)), expected) << text << testing::text_of(layout);
      testing::expect_no_difference(runs.reports(), text);
      for (const auto& report : runs.reports()) EXPECT_NE(report.find("read in steps"), std::string::npos) << report;
    }
  }
}

// A run goes from memory to disk and back, on other layouts.
TEST(SameBitsOffload, ResumesElsewhere) {
  SmallRun runs;
  for (const char* dtype : {"f32", "bf16"}) {
    auto c = config_of(runs, {}, std::string("whole-") + dtype);
    c.steps = 8;
    const auto expected = runs.bits(c, runs.run(c, {1, 0, 1, dtype}));
    auto moved = config_of(runs, {}, std::string("moved-") + dtype);
    moved.steps = 8, moved.save_every = 3;
    const auto run_until = [&](std::int64_t step, const ParallelLayout& layout, const char* text) {
      moved.stop_after = step, moved.offload = plan::offload_of_text(text, "test");
      return runs.run(moved, layout);
    };
    run_until(2, {2, 1, 1, dtype}, "none");
    run_until(4, {4, 3, 1, dtype}, "optimizer=disk,parameters=disk");
    run_until(5, {1, 3, 2, dtype}, "optimizer=disk:0.5,parameters=disk:0.5");
    run_until(6, {2, 0, 1, dtype}, "none");
    const auto last = run_until(0, {1, 0, 1, dtype}, "optimizer=disk");
    EXPECT_EQ(last.code, base::ExitCode::done);
    EXPECT_EQ(runs.bits(moved, last), expected);
    // Weights alone.
    auto fresh = config_of(runs, {}, std::string("fresh-") + dtype), again = fresh;
    fresh.init_from = last.checkpoint, again.init_from = last.checkpoint, again.output += "-again";
    again.offload = plan::offload_of_text("optimizer=disk,parameters=disk", "test");
    const auto in_memory = runs.bits(fresh, runs.run(fresh, {1, 0, 1, dtype}));
    EXPECT_EQ(runs.bits(again, runs.run(again, {2, 3, 1, dtype})), in_memory);
  }
}

// A group of several tiles, with saving while weights are on disk.
TEST(SameBitsOffload, TilesOfAWideLayer) {
  SmallRun runs;
  auto c = config_of(runs, {}, "wide");
  c.model = runs.model("wide", "layers = 2\nhidden = 256\nheads = 4\nkv-heads = 4\nffn = 1024\ncontext = 16\n");
  c.global_batch = 2, c.micro_batch = 1, c.steps = 3, c.save_every = 2, c.validate_every = 0,
  c.validation_sequences = 0;
  const auto expected = runs.bits(c, runs.run(c, {1, 0, 2, "bf16"}));
  c.output += "-disk", c.offload = plan::offload_of_text("optimizer=disk,parameters=disk", "test");
  EXPECT_EQ(runs.bits(c, runs.run(c, {1, 3, 2, "bf16"})), expected);
  testing::expect_no_difference(runs.reports(), "wide");
}

// Folders share by weight; the run says how long it waited for them, and what its steps reached.
TEST(SameBitsOffload, FoldersOfSeveralSpeeds) {
  SmallRun runs;
  auto c = config_of(runs, {}, "speeds");
  const auto expected = runs.bits(c, runs.run(c, {2, 3, 1, "f32"}));
  for (const auto& line : SmallRun::metrics(c)) EXPECT_FALSE(line.contains("disk_wait_seconds"));
  EXPECT_EQ(testing::slurp(c.output + "/report.txt").find("disk"), std::string::npos);
  c.output += "-disk", c.offload = plan::offload_of_text("optimizer=disk,parameters=disk", "test");
  c.offload_dir = fmt::format("{0}/fast:3,{0}/slow:1", runs.folder().string());
  for (const char* name : {"fast", "slow"}) std::filesystem::create_directory(runs.folder() / name);
  EXPECT_EQ(runs.bits(c, runs.run(c, {2, 3, 1, "f32"})), expected);
  testing::expect_no_difference(runs.reports(), "speeds");
  const auto lines = SmallRun::metrics(c);
  ASSERT_EQ(lines.size(), 3u);
  double blocked = 0;
  for (const auto& line : lines) {
    EXPECT_GE(line.at("disk_wait_seconds"), 0) << line;
    blocked += line.at("disk_wait_seconds").get<double>();
  }
  EXPECT_GT(blocked, 0) << "an update waits for its first tile";
  const auto report = testing::slurp(c.output + "/report.txt");
  std::smatch row;
  ASSERT_TRUE(std::regex_search(report, row, std::regex("written in steps +([0-9]+)"))) << report;
  const auto written = fmt::format(" and {} written in steps (", base::size_text(std::stoll(row[1])));
  EXPECT_NE(report.find(written), std::string::npos) << report;
  EXPECT_NE(report.find("; steps were blocked "), std::string::npos) << report;
}

// Steps that overflow change nothing on disk either.
TEST(SameBitsOffload, SkippedStepsChangeNothing) {
  SmallRun runs;
  auto c = config_of(runs, {}, "skips");
  c.steps = 14, c.loss_scale = "dynamic:4294967296,4,1";
  const auto result = runs.run(c, {1, 0, 1, "f16"});
  const auto expected = runs.bits(c, result);
  const auto metrics = SmallRun::metrics(c);
  ASSERT_GT(metrics.back().value("skipped_steps", 0), 0) << "this run is to overflow";
  c.output += "-disk", c.offload = plan::offload_of_text("optimizer=disk,parameters=disk", "test");
  EXPECT_EQ(runs.bits(c, runs.run(c, {2, 3, 1, "f16"})), expected);
}

TEST(SameBitsOffload, RefusesWhatCannotLieThere) {
  SmallRun runs;
  const auto refusal = [&](const char* text, int zero, const std::function<void(engine::RunConfig&)>& change = {}) {
    auto c = config_of(runs, {}, "refused");
    c.zero = zero, c.threads = 1;
    if (change) change(c);
    try {
      c.offload = plan::offload_of_text(text, "--offload");
      engine::make_setup(c, 1, 1);
      return std::string();
    } catch (const base::Error& e) {
      return e.what() + std::string(" | ") + e.hint();
    }
  };
  EXPECT_EQ(refusal("optimizer=disk,parameters=disk:0.25", 3), "");
  EXPECT_EQ(
      refusal("optimizer=host", 1),
      "--offload optimizer=host: the ranks compute on the CPU, whose memory is the host's | disk in place of host");
  EXPECT_EQ(refusal("parameters=disk", 2),
            "--offload parameters=disk: with --zero 2 every rank holds whole weights in memory | --zero 3, also on one "
            "rank");
  EXPECT_NE(refusal("gradients=disk", 1).find("whole gradients"), std::string::npos);
  const auto depth = [](auto& c) { c.accumulation_order = plan::AccumulationOrder::depth; };
  EXPECT_NE(refusal("gradients=disk", 3, depth).find("only in the last of 6 accumulation steps"), std::string::npos);
  EXPECT_EQ(refusal("gradients=disk", 3), "") << "by itself it is breadth first";
  EXPECT_NE(refusal("optimizer=disk", 1, [](auto& c) { c.optimizer = "lamb"; }).find("whole parameters"),
            std::string::npos);
  EXPECT_NE(refusal("optimizer=disk", 1, [](auto& c) { c.offload_dir = ""; }).find("has no folder"), std::string::npos);
  for (const auto& [folders, words] : {std::pair("a,a", "--offload-dir \"a,a\": a comes twice"),
                                       std::pair("a:2,,b", "a folder without a name"), std::pair("a:0", "no weight")})
    EXPECT_NE(refusal("optimizer=disk", 1, [&, names = folders](auto& c) { c.offload_dir = names; }).find(words),
              std::string::npos)
        << folders;
  const auto twice = fmt::format("{0},{0}/../{1}", runs.folder().string(), runs.folder().filename().string());
  EXPECT_NE(refusal("optimizer=disk", 1, [&](auto& c) { c.offload_dir = twice; }).find(" are one folder"),
            std::string::npos);
  for (const auto& [theirs, ours] :
       {std::pair("optimizer=cpu", "did you mean 'host'? That is of a GPU; where ranks compute on the CPU, 'disk' is "),
        std::pair("optimizer=nvme", "'disk'?"), std::pair("params=disk", "'parameters'?"),
        std::pair("optimizer=gpu", "'device'?"), std::pair("cpu=optimizer", "for example optimizer=disk"),
        std::pair("optimizer=params", "for example optimizer=disk"),
        std::pair("cpu",
                  "cpu\" says where, and not what | name what and where: optimizer=host,parameters=host on a GPU"),
        std::pair("nvme", "nvme\" says where, and not what | name what and where: optimizer=disk"),
        std::pair("auto,optimizer=disk", "\"auto\" says neither what nor where | write 'auto', and nothing else"),
        std::pair("auto", "\"auto\" has no place"), std::pair("NONE", "write 'none', and nothing else"),
        std::pair("disk", "disk\" says where"), std::pair("optimizer", "optimizer\" has no place")})
    EXPECT_NE(refusal(theirs, 1).find(ours), std::string::npos) << theirs << ": " << refusal(theirs, 1);
  for (const char* wrong :
       {"optimizer", "optimizer=", "optimizer=tape", "moments=disk", "optimizer=disk:0", "optimizer=disk:1.5",
        "optimizer=disk:x", "optimizer=disk,optimizer=disk", "optimizer=disk,", ",", ""})
    EXPECT_NE(refusal(wrong, 1).find("--offload "), std::string::npos) << wrong;
  EXPECT_NE(refusal("optimiser=disk", 1).find("optimizer"), std::string::npos);
  EXPECT_EQ(plan::offload_text(plan::offload_of_text("none", "")), "none");
  EXPECT_EQ(plan::offload_text(plan::offload_of_text("gradients=disk:0.25,optimizer=disk,parameters=device", "")),
            "optimizer=disk,gradients=disk:0.25");
  EXPECT_EQ(plan::offload_text(plan::offload_of_text("optimizer=disk, parameters = disk:0.5 ", "")),
            "optimizer=disk,parameters=disk:0.5");
}

}  // namespace same_bits_offload_test
}  // namespace trainyard

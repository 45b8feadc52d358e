// A moving average of the weights: the mean that double precision computes from all checkpoints of a run, the same bits
// on every layout and after a resume, memory as planned, and what is refused.
#include "libtrain/checkpoint/average.h"
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/run_folder.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace trainyard {
namespace ema_test {

using testing::error_text_of;
using testing::ParallelLayout;
using testing::SmallRun;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

using Weights = std::map<std::string, std::vector<float>>;

Weights weights_of(const std::string& path) {
  checkpoint::Reader reader(path);
  Weights out;
  for (const auto& p : reader.manifest().parameters) {
    auto& values = out[p.name];
    values.resize(static_cast<std::size_t>(p.count));
    reader.read_tensor(checkpoint::Kind::master, p.name, 0, p.count, values.data());
  }
  return out;
}

engine::RunConfig config(const SmallRun& runs, const std::string& output, const std::string& optimizer = "adamw") {
  auto c = runs.config(output);
  c.model = runs.llama(), c.optimizer = optimizer, c.ema = 0.75, c.steps = 6, c.global_batch = 6;
  return c;
}

// The mean that `reshard-checkpoint --ema` writes.
Weights mean_of(const SmallRun& runs, const std::string& path, const std::string& name) {
  const auto destination = (runs.folder() / name).string();
  checkpoint::NewLayout layout;
  layout.dtype = base::DType::f32;
  checkpoint::moving_average(checkpoint::Reader(path), destination, layout, {});
  const checkpoint::Reader reader(destination);
  EXPECT_EQ(reader.state().contents, checkpoint::Contents::model);
  return weights_of(destination);
}

TEST(MovingAverage, IsTheMeanOfTheWeightsOfAllSteps) {
  for (const char* dtype : {"f32", "bf16"})
    for (const char* optimizer : {"adamw", "adafactor"}) {
      SmallRun runs;
      auto c = config(runs, "run", optimizer);
      c.save_every = 1, c.keep = 0;
      runs.run(c, {1, 0, 1, dtype});
      std::map<std::string, std::vector<double>> sums;
      double shares = 0;
      for (int step = 1; step <= 6; ++step) {
        const double share = 0.25 * std::pow(0.75, 6 - step);
        shares += share;
        for (const auto& [name, values] : weights_of(fmt::format("{}/checkpoints/step-{:08}", c.output, step))) {
          auto& sum = sums[name];
          sum.resize(values.size());
          for (std::size_t i = 0; i < values.size(); ++i) sum[i] += share * static_cast<double>(values[i]);
        }
      }
      const auto mean = mean_of(runs, c.output + "/checkpoints/step-00000006", "mean");
      const auto last = weights_of(c.output + "/checkpoints/step-00000006");
      double furthest = 0;
      for (const auto& [name, values] : mean) {
        ASSERT_EQ(values.size(), sums[name].size()) << name;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double want = sums[name][i] / shares;
          ASSERT_NEAR(static_cast<double>(values[i]), want, 1e-6 * std::max(1.0, std::abs(want))) << name << " " << i;
          furthest = std::max(furthest, std::abs(static_cast<double>(last.at(name)[i]) - want));
        }
      }
      EXPECT_GT(furthest, 1e-3) << "the mean is the last weight";
    }
}

TEST(MovingAverage, HasTheSameBitsOnEveryLayoutAndChangesNoOther) {
  SmallRun runs;
  for (const char* optimizer : {"adamw", "lamb", "muon", "adafactor"}) {
    const auto of = [&](const char* name) { return config(runs, fmt::format("{}-{}", optimizer, name), optimizer); };
    const auto one = of("one");
    const auto expected = runs.bits(one, runs.run(one, {}));
    EXPECT_TRUE(has(expected, "/optimizer/ema/layers.00.attention.q.weight"));
    auto without = of("without");
    without.ema = 0;
    std::string others;
    std::istringstream lines(expected);
    for (std::string line; std::getline(lines, line);)
      if (!has(line, "/optimizer/ema/")) others += line + "\n";
    EXPECT_EQ(runs.bits(without, runs.run(without, {})), others);
    std::vector<ParallelLayout> layouts(5);
    layouts[0].ranks = 3, layouts[0].zero = 1, layouts[1].ranks = 3, layouts[1].zero = 3;
    layouts[2].ranks = 4, layouts[2].tensor = 2, layouts[2].zero = 2, layouts[3].ranks = 2, layouts[3].pipeline = 2;
    layouts[4].ranks = 2, layouts[4].zero = 0;
    int n = 0;
    for (const auto& layout : layouts) {
      const auto c = of(fmt::format("layout-{}", ++n).c_str());
      EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << c.output;
      testing::expect_no_difference(runs.reports(), c.output);
    }
  }
}

TEST(MovingAverage, OffTheDeviceAndOverAResumeItIsTheSame) {
  SmallRun runs;
  const auto one = config(runs, "one");
  const auto expected = runs.bits(one, runs.run(one, {}));
  auto stopped = config(runs, "stopped");
  stopped.stop_after = 3;
  runs.run(stopped, {2, 2, 1});
  stopped.stop_after = 0;
  EXPECT_EQ(runs.bits(stopped, runs.run(stopped, {3, 3, 1})), expected);
  auto elsewhere = config(runs, "elsewhere");
  elsewhere.offload = plan::offload_of_text("optimizer=disk", "test");
  elsewhere.offload_dir = (runs.folder() / "disk").string();
  testing::fs::create_directories(elsewhere.offload_dir);
  EXPECT_EQ(runs.bits(elsewhere, runs.run(elsewhere, {2, 1, 1})), expected);
  testing::expect_no_difference(runs.reports(), "elsewhere");
}

TEST(MovingAverage, FrozenWeightsAreTheirOwnMean) {
  SmallRun runs;
  auto c = config(runs, "frozen");
  c.groups = "embedding.*:frozen";
  const auto done = runs.run(c, {});
  const auto mean = mean_of(runs, done.checkpoint, "mean"), last = weights_of(done.checkpoint);
  for (const auto& [name, values] : mean) {
    double furthest = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      furthest = std::max(furthest, static_cast<double>(std::abs(values[i] - last.at(name)[i])));
    EXPECT_EQ(furthest == 0, name.starts_with("embedding.")) << name;
  }
}

TEST(MovingAverage, BeginsWithARun) {
  SmallRun runs;
  auto c = config(runs, "run");
  c.stop_after = 3;
  const auto stopped = runs.run(c, {});
  c.stop_after = 0;
  auto without = c, other = c;
  without.ema = 0;
  EXPECT_TRUE(has(error_text_of([&] { runs.run(without, {}); }),
                  "holds the states m, v, ema, and this run has m, v: a moving average begins with a run | give --ema "
                  "as before"));
  other.ema = 0.5;
  const auto said = error_text_of([&] { runs.run(other, {}); });
  EXPECT_TRUE(has(said, "--ema: the checkpoint has 0.75, this run 0.5")) << said;
  EXPECT_FALSE(has(said, "--change")) << said;
  other.change = "ema";
  EXPECT_TRUE(has(error_text_of([&] { runs.run(other, {}); }), "--change ema: no run goes on with another average"));
  auto bare = config(runs, "bare");
  bare.ema = 0, bare.stop_after = 3;
  const auto plain = runs.run(bare, {});
  bare.ema = 0.75, bare.stop_after = 0;
  EXPECT_TRUE(has(error_text_of([&] { runs.run(bare, {}); }), "holds the states m, v, and this run has m, v, ema"));
  EXPECT_TRUE(has(error_text_of([&] {
                    checkpoint::moving_average(checkpoint::Reader(plain.checkpoint), (runs.folder() / "no").string(),
                                               {}, {});
                  }),
                  "holds no moving average of its weights | a run keeps one from its beginning with --ema"));
  EXPECT_FALSE(testing::fs::exists(runs.folder() / "no"));
  auto narrow = config(runs, "narrow");
  narrow.moment_dtype = base::DType::bf16;
  EXPECT_TRUE(has(error_text_of([&] { runs.run(narrow, {}); }), "--ema 0.75 with --moment-dtype bf16"));
  auto remainder = config(runs, "remainder");
  remainder.master = plan::MasterFormat::remainder;
  EXPECT_TRUE(has(error_text_of([&] { runs.run(remainder, {1, 0, 1, "bf16"}); }), "--ema 0.75 averages f32 masters"));
  EXPECT_EQ(runs.run(c, {}).step, 6);
}

}  // namespace ema_test
}  // namespace trainyard

// Runs whose global batch grows: the bits of one rank on any layout, of a run with a constant batch in every single
// step, and after a stop anywhere.
#include "libtrain/checkpoint/reshard.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/setup.h"
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace batch_ramp_test {

using testing::ParallelLayout;
using testing::SmallRun;

// The sizes of `growing`: increments come with 12, 24, 36 and 48 samples.
const std::vector<std::int64_t> sizes{4, 4, 4, 6, 6, 8, 8, 10, 12, 12, 12};
constexpr const char* growing = "4:12:2/48";

void give(engine::RunConfig& c, const std::string& batch) {
  auto fields = engine::fields_of(c);
  base::field_named(fields, "global-batch", "a test").set(batch, "global-batch");
}

engine::RunConfig config(SmallRun& runs, const std::string& output) {
  auto c = runs.config(output);
  give(c, growing);
  c.steps = static_cast<std::int64_t>(sizes.size());
  return c;
}

std::string name_of(const ParallelLayout& c) {
  return fmt::format("{} ranks, ZeRO {}, {}, tensor {}, {} stages by {}", c.ranks, c.zero, c.dtype, c.tensor,
                     c.pipeline, c.schedule);
}

std::string refusal_of(SmallRun& runs, const engine::RunConfig& c, const ParallelLayout& layout) {
  try {
    runs.run(c, layout);
  } catch (const base::Error& e) {
    return e.what();
  }
  return "not refused";
}

const std::vector<ParallelLayout>& layouts() {
  static const std::vector<ParallelLayout> all = [] {
    std::vector<ParallelLayout> out;
    for (int ranks : {1, 2, 3})
      for (int zero : {0, 1, 2, 3}) out.push_back({.ranks = ranks, .zero = zero, .threads = 1});
    out.push_back({.ranks = 4, .zero = 2, .recompute = "full"});
    out.push_back({.ranks = 4, .zero = 3, .tensor = 2});
    out.push_back({.ranks = 2, .pipeline = 2});
    out.push_back({.ranks = 4, .zero = 1, .pipeline = 2});
    out.push_back({.ranks = 2, .pipeline = 2, .schedule = "gpipe"});
    out.push_back({.ranks = 4, .zero = 3, .pipeline = 2, .schedule = "interleaved", .virtual_stages = 2});
    out.push_back({.ranks = 6, .zero = 2, .pipeline = 2, .schedule = "zero-bubble"});
    return out;
  }();
  return all;
}

TEST(BatchRamp, SameBitsOnEveryLayout) {
  SmallRun runs;
  std::string expected;
  for (std::size_t i = 0; i < layouts().size(); ++i) {
    if (!testing::at_night() && i < 12 && (i / 4 + i) % 2 == 1) continue;  // half of the data-parallel ones
    auto c = config(runs, fmt::format("layout-{}", i));
    const auto bits = runs.bits(c, runs.run(c, layouts()[i]));
    if (i == 0) expected = bits;
    EXPECT_EQ(bits, expected) << name_of(layouts()[i]);
    testing::expect_no_difference(runs.reports(), name_of(layouts()[i]));
  }
}

TEST(BatchRamp, SameBitsWithLocalAccumulationExpertsAndOtherDtypes) {
  SmallRun runs;
  const auto expect_same = [&](engine::RunConfig c, const std::vector<ParallelLayout>& all) {
    std::string expected;
    const auto output = c.output;
    for (std::size_t i = 0; i < all.size(); ++i) {
      c.output = fmt::format("{}-{}", output, i);
      const auto bits = runs.bits(c, runs.run(c, all[i]));
      if (i == 0) expected = bits;
      EXPECT_EQ(bits, expected) << output << ": " << name_of(all[i]);
      testing::expect_no_difference(runs.reports(), output + ": " + name_of(all[i]));
    }
  };
  auto grouped = config(runs, "grouped");
  grouped.local_accumulation = 2;
  expect_same(grouped, {{.ranks = 1}, {.ranks = 1, .zero = 1}, {.ranks = 2, .zero = 3}});
  auto experts = config(runs, "experts");
  experts.model = runs.model("experts",
                             "layers = 4\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n"
                             "[experts]\ncount = 4\nevery = 2\ntop-k = 2\nscore = \"sigmoid\"\nbias-rate = 0.05\n"
                             "capacity-factor = 1\n");
  expect_same(experts, {{.ranks = 1}, {.ranks = 4, .zero = 1, .experts = 2}, {.ranks = 4, .zero = 3, .experts = 4}});
  auto shared = config(runs, "shared");
  give(shared, "8:16:4/48");
  shared.micro_batch = 4;
  expect_same(shared, {{.ranks = 1}, {.ranks = 4, .zero = 3, .tensor = 2, .sequence_parallel = true}});
  for (const char* dtype : {"bf16", "f16"})
    expect_same(config(runs, dtype), {{.ranks = 1, .dtype = dtype}, {.ranks = 3, .zero = 2, .dtype = dtype}});
}

// The oracle: a run with a constant batch of that size, from the same checkpoint. By day each layout has half of the
// steps.
TEST(BatchRamp, EachStepIsThatOfAConstantBatch) {
  SmallRun runs;
  for (const ParallelLayout& layout :
       {ParallelLayout{.ranks = 1, .dtype = "f16"}, ParallelLayout{.ranks = 3, .zero = 1},
        ParallelLayout{.ranks = 4, .zero = 2, .pipeline = 2}}) {
    auto c = config(runs, fmt::format("ramp-{}-{}", layout.ranks, layout.dtype));
    c.save_every = 1, c.keep = 0;
    runs.run(c, layout);
    const auto expected = SmallRun::metrics(c);
    ASSERT_EQ(expected.size(), sizes.size());
    std::int64_t samples = 0;
    for (std::size_t step = 1; step < sizes.size(); ++step) {
      samples += sizes[step - 1];
      EXPECT_EQ(expected[step - 1]["tokens_seen"].get<std::int64_t>(), samples * 32) << step;
      if (!testing::at_night() && (step + static_cast<std::size_t>(layout.zero)) % 2 == 1) continue;
      auto alone = c;
      alone.output = c.output + fmt::format("-from-{}", step);
      alone.resume = fmt::format("{}/checkpoints/step-{:08}", c.output, step);
      alone.change = "global-batch", alone.save_every = 0;
      alone.stop_after = static_cast<std::int64_t>(step) + 1;
      give(alone, fmt::format("{}", sizes[step]));
      const auto result = runs.run(alone, {.ranks = 1, .dtype = layout.dtype});
      const auto metrics = SmallRun::metrics(alone);
      ASSERT_FALSE(metrics.empty());
      for (const char* key : {"step", "loss", "gradient_norm", "learning_rate", "tokens_seen", "loss_scale"})
        EXPECT_EQ(metrics.back().value(key, nlohmann::json()), expected[step].value(key, nlohmann::json()))
            << key << " of step " << step + 1;
      const checkpoint::Reader one(result.checkpoint),
          other(fmt::format("{}/checkpoints/step-{:08}", c.output, step + 1));
      ASSERT_EQ(one.tensors().size(), other.tensors().size());
      for (std::size_t t = 0; t < one.tensors().size(); ++t)
        EXPECT_EQ(one.tensors()[t].fingerprint, other.tensors()[t].fingerprint) << one.tensors()[t].path;
      EXPECT_EQ(one.state().samples_seen, other.state().samples_seen);
    }
  }
}

TEST(BatchRamp, StopsAndGoesOnOnAnotherLayout) {
  SmallRun runs;
  auto whole = config(runs, "whole");
  const auto expected = runs.bits(whole, runs.run(whole, {.ranks = 1}));
  for (std::size_t i = 1; i < sizes.size(); i += testing::by_day_or_night(2, 1)) {
    auto c = config(runs, fmt::format("stopped-{}", i));
    c.stop_after = static_cast<std::int64_t>(i);
    ASSERT_EQ(runs.run(c, layouts()[(3 * i) % layouts().size()]).code, base::ExitCode::requeue);
    c.stop_after = 0;
    give(c, "4:12:2/48samples");
    const auto& layout = layouts()[(5 * i + 1) % layouts().size()];
    EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << "after step " << i << ", " << name_of(layout);
  }
}

TEST(BatchRamp, ReshardedCheckpointsGoOn) {
  SmallRun runs;
  auto whole = config(runs, "whole");
  const auto expected = runs.bits(whole, runs.run(whole, {.ranks = 2, .zero = 1}));
  auto c = config(runs, "resharded");
  c.stop_after = 5;
  const auto from = runs.run(c, {.ranks = 3, .zero = 3}).checkpoint;
  c.resume = (runs.folder() / "other").string();
  checkpoint::ReshardOptions options;
  options.history = engine::history_through(from, 5);
  checkpoint::NewLayout layout;
  layout.data = 2, layout.pipeline = 2;
  checkpoint::reshard(checkpoint::Reader(from, checkpoint::Reader::Check::all_but_payloads), c.resume, layout, options);
  std::filesystem::remove_all(from);
  c.stop_after = 0;
  EXPECT_EQ(runs.bits(c, runs.run(c, {.ranks = 4, .zero = 2, .pipeline = 2})), expected);
}

TEST(BatchRamp, BelongsToTheRun) {
  SmallRun runs;
  auto c = config(runs, "identity");
  c.stop_after = 5;
  runs.run(c, {.ranks = 2});
  c.stop_after = 0;
  for (const char* other : {"12", "4:12:2/49", "4:12:4/48", "4:14:2/48", "4:12:2/48tokens"}) {
    give(c, other);
    EXPECT_NE(refusal_of(runs, c, {.ranks = 2}).find("global-batch: the checkpoint has 4:12:2/48samples, this run "),
              std::string::npos)
        << refusal_of(runs, c, {.ranks = 2});
  }
  // 24 samples are consumed, and a ramp goes on from there: 24 of 96 samples are one of four increments.
  give(c, "4:12:2/96samples");
  c.change = "global-batch", c.steps = 6;
  EXPECT_NE(refusal_of(runs, c, {.ranks = 2}).find("steps"), std::string::npos);
  c.change = "global-batch,steps";
  runs.run(c, {.ranks = 2});
  EXPECT_EQ(SmallRun::metrics(c).back()["tokens_seen"].get<int>(), (24 + 6) * 32);
}

TEST(BatchRamp, AConstantBatchIsWrittenAsBefore) {
  SmallRun runs;
  auto c = config(runs, "constant");
  give(c, "14");
  c.steps = 1;
  const checkpoint::Reader reader(runs.run(c, {.ranks = 2, .zero = 1}).checkpoint);
  EXPECT_EQ(reader.state().identity["global_batch"], 14);
  EXPECT_TRUE(reader.state().identity["global_batch"].is_number());
}

TEST(BatchRamp, LayoutsThatCannotDivideItAreRefusedBeforeAnythingIsWritten) {
  SmallRun runs;
  const auto c = config(runs, "refused");
  EXPECT_NE(refusal_of(runs, c, {.ranks = 5}).find("has steps of 4: 5 ranks, but a step has only 4 groups"),
            std::string::npos)
      << refusal_of(runs, c, {.ranks = 5});
  auto micro = c;
  micro.micro_batch = 4;
  EXPECT_NE(refusal_of(runs, micro, {.ranks = 1}).find("has steps of 6: --global-batch 6 is not a multiple"),
            std::string::npos)
      << refusal_of(runs, micro, {.ranks = 1});
  EXPECT_FALSE(std::filesystem::exists(c.output));
}

// The counters of dropout end with sample 2^30. Four increments come late, so a step more is one of 4 samples.
TEST(BatchRamp, CountsTheSamplesOfAllSteps) {
  SmallRun runs;
  auto c = config(runs, "counters");
  const auto setup = engine::make_setup(c, 1, 1);
  const auto most = std::int64_t{1} << 30;
  give(c, fmt::format("4:12:2/{}", 5 * most));
  c.steps = most / 4;
  engine::require_counters(setup.plan.model, c, 0, 0);
  c.steps = most / 4 + 1;
  EXPECT_THROW(engine::require_counters(setup.plan.model, c, 0, 0), base::UsageError);
  give(c, fmt::format("4:12:2/{}", most));
  c.steps = most / 4;
  EXPECT_THROW(engine::require_counters(setup.plan.model, c, 0, 0), base::UsageError);
}

TEST(BatchRamp, SettingsReadWhatTheyPrint) {
  engine::RunConfig c, read;
  for (const char* text : {"4:12:2/48samples", "16:512/10000000tokens", "12"}) {
    give(c, text);
    const auto printed = engine::print_config(engine::fields_of(c), c);
    const std::string line =
        std::string("global-batch = ") + (text == std::string("12") ? "12 " : fmt::format("\"{}\" ", text));
    EXPECT_NE(printed.find(line), std::string::npos) << printed;
    SmallRun runs;
    const auto path = (runs.folder() / "printed.toml").string();
    std::ofstream(path) << line;
    auto fields = engine::fields_of(read);
    base::read_toml(fields, path);
    EXPECT_EQ(read.global_batch, c.global_batch);
    EXPECT_EQ(read.batch_ramp, c.batch_ramp);
  }
}

TEST(BatchRamp, ATraceNamesIt) {
  SmallRun runs;
  auto c = config(runs, "trace");
  c.trace = (runs.folder() / "trace.json").string();
  runs.run(c, {.ranks = 2});
  std::ifstream in(c.trace);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(text.find("\"batch_ramp\":\"4:12:2/48samples\""), std::string::npos);
  EXPECT_NE(text.find("\"micro_batches\":12"), std::string::npos);
}

}  // namespace batch_ramp_test
}  // namespace trainyard

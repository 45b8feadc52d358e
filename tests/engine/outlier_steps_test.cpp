// Outliers: the text of their rule, the window, and which steps runs skip on every layout and after a resume.
#include "libtrain/engine/outlier_steps.h"
#include "libtrain/base/statistics.h"

#include "kernels/square_sum/square_sum.h"
#include "kernels/step_numbers/step_numbers_args.h"
#include "libtrain/base/error.h"
#include "libtrain/engine/restore.h"
#include "tests/engine/small_run.h"
#include "tests/night.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace trainyard {
namespace outlier_steps_test {

using engine::OutlierSteps;
using testing::ParallelLayout;
using testing::SmallRun;

TEST(OutlierSteps, ReadsItsRules) {
  EXPECT_FALSE(engine::outlier_rule("none").skips());
  EXPECT_EQ(engine::outlier_rule("norm:10"), (engine::OutlierRule{10, 0, 128}));
  EXPECT_EQ(engine::outlier_rule("loss:1.5"), (engine::OutlierRule{0, 1.5, 128}));
  EXPECT_EQ(engine::outlier_rule("window:2, loss:2,norm:1e3"), (engine::OutlierRule{1000, 2, 2}));
  EXPECT_EQ(engine::text_of(engine::outlier_rule("window:1024,norm:10.50")), "norm:10.5,window:1024");
  EXPECT_EQ(engine::text_of(engine::outlier_rule("loss:2,norm:10")), "norm:10,loss:2,window:128");
  EXPECT_EQ(engine::text_of(engine::outlier_rule("loss:2")), "loss:2,window:128");
  EXPECT_EQ(engine::text_of(engine::OutlierRule()), "none");
}

TEST(OutlierSteps, RefusesOtherTexts) {
  for (const char* text : {"",
                           "on",
                           "10",
                           "norm",
                           "norm:",
                           "norm:x",
                           "norm:1",
                           "norm:0.5",
                           "norm:-3",
                           "norm:nan",
                           "norm:inf",
                           "norm:1e7",
                           "norm:10x",
                           "norm:10,",
                           "norm:2,norm:3",
                           "window:8",
                           "norm:2,window:1",
                           "loss:2,window:",
                           "norm:2,none",
                           "loss:2,window:1025",
                           "loss:2,window:8.5",
                           "Norm:2",
                           "norm=2"})
    try {
      engine::outlier_rule(text);
      ADD_FAILURE() << "'" << text << "' is accepted";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::usage) << text;
      EXPECT_EQ(std::string(e.what()).find("--skip-outliers "), 0u) << e.what();
    }
}

TEST(OutlierSteps, AMedianOfAnEvenNumberIsTheMeanOfTheTwoInTheMiddle) {
  EXPECT_EQ(base::median({3}), 3);
  EXPECT_EQ(base::median({4, 1}), 2.5);
  EXPECT_EQ(base::median({9, 1, 5}), 5);
  EXPECT_EQ(base::median({7, 1, 100, 2}), 4.5);
  EXPECT_EQ(base::median({8, 8, 0, 8, 1e300}), 8);
}

TEST(OutlierSteps, HasLimitsOnceTheWindowIsFull) {
  OutlierSteps odd(engine::outlier_rule("norm:3,loss:2,window:3"));
  for (const double x : {1.0, 5.0}) {
    odd.count_step(x, 10 * x);
    EXPECT_EQ(odd.limits().most_norm, 0);
    EXPECT_EQ(odd.limits().most_loss, 0);
    EXPECT_FALSE(odd.look(1e9, 1e9));
  }
  odd.count_step(2, 20);  // norms 1 5 2
  EXPECT_EQ(odd.limits().most_norm, 6);
  EXPECT_EQ(odd.limits().most_loss, 40);
  EXPECT_FALSE(odd.look(6, 40)) << "a limit itself is within it";
  const auto norm = odd.look(6.5, 41);
  ASSERT_TRUE(norm);
  EXPECT_FALSE(norm->is_loss) << "the norm comes first";
  EXPECT_EQ(norm->value, 6.5);
  EXPECT_EQ(norm->median, 2);
  EXPECT_EQ(norm->limit(), 6);
  const auto loss = odd.look(1, 41);
  ASSERT_TRUE(loss);
  EXPECT_TRUE(loss->is_loss);
  EXPECT_EQ(loss->median, 20);
  EXPECT_TRUE(odd.count_outlier());
  EXPECT_EQ(odd.limits().most_norm, 6) << "a skipped step is not in the window";
  odd.count_step(4, 40);  // 5 2 4
  EXPECT_EQ(odd.limits().most_norm, 12);

  OutlierSteps even(engine::outlier_rule("norm:10,window:4"));
  for (const double x : {4.0, 1.0, 3.0, 8.0}) even.count_step(x, 1);
  EXPECT_EQ(even.limits().most_norm, 35);
  EXPECT_EQ(even.limits().most_loss, 0) << "no factor of the loss is given";
  even.count_step(0.5, 1);  // 1 3 8 0.5
  EXPECT_EQ(even.limits().most_norm, 20);

  OutlierSteps zero(engine::outlier_rule("norm:10,loss:2,window:2"));
  zero.count_step(0, 0), zero.count_step(0, -1);
  EXPECT_EQ(zero.limits().most_norm, 0) << "0: no limit, because every step with a gradient would be above";
  EXPECT_EQ(zero.limits().most_loss, 0);
  OutlierSteps none;
  none.count_step(1, 1);
  EXPECT_EQ(none.limits().most_norm, 0);
  EXPECT_FALSE(none.stored());
}

// The gradient of a balance loss is there without a target, but it is no mean over targets.
TEST(OutlierSteps, AStepWithoutTargetsIsNone) {
  kernels::FixedPointSum squares;
  squares.limbs[12] = 1;  // 2^86
  const auto outlier_of = [&](double targets) {
    const double pair[2] = {0, targets};
    kernels::StepNumbers out;
    kernels::StepNumbersArgs args;
    args.losses = pair, args.places = args.micros = 1, args.limbs = squares.limbs.data(), args.out = &out;
    args.rows.ranks = 1, args.most_norm = 1;
    kernels::make_step_numbers(args);
    EXPECT_GT(out.gradient_norm, 1);
    return out.outlier;
  };
  EXPECT_EQ(outlier_of(1), 1);
  EXPECT_EQ(outlier_of(0), 0);
}

TEST(OutlierSteps, EndsARunWithAsManySkipsInARowAsTheWindowIsLong) {
  OutlierSteps steps(engine::outlier_rule("norm:2,window:3"));
  for (int i = 0; i < 3; ++i) steps.count_step(1, 1);
  EXPECT_TRUE(steps.count_outlier());
  EXPECT_TRUE(steps.count_outlier());
  steps.count_step(1, 1);
  EXPECT_TRUE(steps.count_outlier()) << "a step that counts begins anew";
  EXPECT_TRUE(steps.count_outlier());
  EXPECT_FALSE(steps.count_outlier());
  EXPECT_EQ(steps.skips_in_a_row(), 3);
}

TEST(OutlierSteps, GoesOnFromWhatIsStored) {
  OutlierSteps before(engine::outlier_rule("norm:2,window:4"));
  for (const double x : {1.0, 2.0, 3.0, 4.0, 5.0}) before.count_step(x, 10 * x);
  before.count_outlier();
  ASSERT_TRUE(before.stored());
  EXPECT_EQ(*before.stored(), (checkpoint::StoredOutlierWindow{{2, 3, 4, 5}, {20, 30, 40, 50}, 1}));
  const auto after = [&](const char* rule) {
    OutlierSteps out(engine::outlier_rule(rule));
    out.go_on_from(before.stored());
    return out;
  };
  EXPECT_EQ(after("norm:2,window:4").stored(), before.stored());
  EXPECT_EQ(after("loss:3,window:4").limits().most_loss, 105);
  EXPECT_EQ(after("norm:2,window:3").limits().most_norm, 8) << "the newest three";
  EXPECT_EQ(after("norm:2,window:5").limits().most_norm, 0) << "not full yet";
  EXPECT_FALSE(after("none").stored());
  auto anew = after("norm:2,window:4");
  anew.go_on_from({});
  EXPECT_EQ(*anew.stored(), checkpoint::StoredOutlierWindow());
}

// The definition, over all steps of a run: the window of a step has the last steps before it that were taken.
struct Judged {
  std::string of;  // "", "gradient_norm" or "loss"
  double limit = 0;
};
std::vector<Judged> judged(const std::vector<nlohmann::json>& lines, double norm, double loss, std::size_t window) {
  std::vector<Judged> out;
  std::vector<std::vector<double>> taken(2);
  for (const auto& line : lines) {
    Judged step;
    const bool finite = line["loss"].is_number() && line["gradient_norm"].is_number();
    for (const auto& [i, key, factor] : {std::tuple{0, "gradient_norm", norm}, {1, "loss", loss}}) {
      auto last = taken[static_cast<std::size_t>(i)];
      if (!finite || last.size() < window || factor == 0 || !step.of.empty()) continue;
      last.erase(last.begin(), last.end() - static_cast<std::ptrdiff_t>(window));
      std::sort(last.begin(), last.end());
      const double median = (last[(window - 1) / 2] + last[window / 2]) / 2;
      if (line[key].get<double>() > factor * median) step = {key, factor * median};
    }
    if (finite && step.of.empty()) taken[0].push_back(line["gradient_norm"]), taken[1].push_back(line["loss"]);
    out.push_back(step);
  }
  return out;
}

int expect_judged(const std::vector<nlohmann::json>& lines, double norm, double loss, std::size_t window) {
  const auto expected = judged(lines, norm, loss, window);
  int outliers = 0, skipped = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool finite = lines[i]["loss"].is_number() && lines[i]["gradient_norm"].is_number();
    EXPECT_EQ(lines[i].value("outlier", ""), expected[i].of) << "step " << i + 1;
    EXPECT_EQ(lines[i].value("outlier_limit", 0.0), expected[i].limit) << "step " << i + 1;
    outliers += expected[i].of.empty() ? 0 : 1;
    skipped += expected[i].of.empty() && finite ? 0 : 1;
    EXPECT_EQ(lines[i].value("skipped_steps", 0), skipped) << "step " << i + 1;
  }
  return outliers;
}

std::string outliers_of(const std::vector<nlohmann::json>& lines) {
  std::string out;
  for (const auto& line : lines) out += line.value("outlier", "-") + " ";
  return out;
}

// Losses and norms of a small run vary, so that small factors make some of its steps outliers.
engine::RunConfig varied(const SmallRun& runs, const std::string& output, const std::string& rule) {
  auto c = runs.config(output);
  c.global_batch = 6, c.steps = 30, c.skip_outliers = rule;
  return c;
}

// By day two of the other layouts have each rule.
TEST(OutlierSteps, EveryLayoutSkipsTheSameSteps) {
  SmallRun runs;
  std::int64_t number = 0;
  for (const auto& [norm, loss, window] : {std::tuple{1.08, 1.01, 7}, {1.1, 0.0, 6}, {0.0, 1.003, 6}}) {
    engine::OutlierRule rule{norm, loss, window};
    std::string expected;
    for (const auto& layout : {ParallelLayout{},
                               {.ranks = 2, .zero = 1},
                               {.ranks = 3, .zero = 3, .threads = 2, .recompute = "full"},
                               {.ranks = 2, .tensor = 2},
                               {.ranks = 2, .zero = 2, .pipeline = 2}}) {
      SCOPED_TRACE(fmt::format("{} on layout {}", text_of(rule), number));
      const auto c = varied(runs, fmt::format("layout{}", number++), text_of(rule));
      if (!testing::at_night() && !expected.empty() && number % 2 == 0) continue;
      const auto result = runs.run(c, layout);
      const auto lines = runs.metrics(c);
      const auto outliers = expect_judged(lines, norm, loss, static_cast<std::size_t>(window));
      const auto bits = outliers_of(lines) + runs.bits(c, result);
      if (expected.empty()) {
        expected = bits;
        EXPECT_GT(outliers, 2) << outliers_of(lines);
        EXPECT_LT(outliers, 16) << outliers_of(lines);
        EXPECT_EQ(checkpoint::Reader(result.checkpoint).state().skipped_steps, outliers);
      }
      EXPECT_EQ(bits, expected);
    }
  }
}

// The first outlier changes no tensor and not the learning rate, and the data go on.
TEST(OutlierSteps, ASkippedStepChangesNothing) {
  SmallRun runs;
  const auto run = [&](const std::string& output, std::int64_t stop) {
    auto c = varied(runs, output, "norm:1.05,loss:1.01,window:5");
    c.schedule = "constant", c.warmup_steps = 20, c.steps = 24, c.stop_after = stop;
    const auto result = runs.run(c, {.ranks = 2, .zero = 1});
    return std::pair(c, result);
  };
  const auto [all, last] = run("all", 0);
  const auto lines = runs.metrics(all);
  int skipped = 0;
  std::int64_t first = 0;
  for (const auto& line : lines) {
    EXPECT_DOUBLE_EQ(line["learning_rate"].get<double>(), 0.01 * std::min(20, line["step"].get<int>() - skipped) / 20)
        << line;
    if (line.contains("outlier") && first == 0) first = line["step"];
    skipped = line.value("skipped_steps", 0);
  }
  ASSERT_GT(first, 1) << outliers_of(lines);
  const auto before = run("before", first - 1).second, after = run("after", first).second;
  checkpoint::Reader a(before.checkpoint), b(after.checkpoint);
  const auto tensors = a.tensors(), same = b.tensors();
  ASSERT_EQ(tensors.size(), same.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ(tensors[i].fingerprint, same[i].fingerprint) << tensors[i].path;
  EXPECT_EQ(a.state().outlier_window->losses, b.state().outlier_window->losses);
  EXPECT_EQ(a.state().outlier_window->gradient_norms, b.state().outlier_window->gradient_norms);
  EXPECT_EQ(a.state().outlier_window->skips_in_a_row, 0);
  EXPECT_EQ(b.state().outlier_window->skips_in_a_row, 1);
  EXPECT_EQ(a.state().skipped_steps + 1, b.state().skipped_steps);
  EXPECT_EQ(b.state().samples_seen, first * 6) << "the data of a skipped step is consumed";
}

// Stops after every second step, so inside of the window, before it is full, and between outliers.
TEST(OutlierSteps, AResumeDecidesAsARunWithoutAStop) {
  SmallRun runs;
  const std::string rule = "norm:1.08,loss:1.01,window:7";
  const auto c = varied(runs, "whole", rule);
  const auto whole = runs.run(c, {});
  auto parts = varied(runs, "parts", rule);
  engine::RunResult result;
  for (std::int64_t stop = 2; stop <= 30; stop += 2) {
    parts.stop_after = stop;
    result = runs.run(parts, stop % 4 == 0 ? ParallelLayout{.ranks = 2, .zero = 1} : ParallelLayout{});
  }
  EXPECT_EQ(outliers_of(runs.metrics(parts)), outliers_of(runs.metrics(c)));
  EXPECT_EQ(runs.bits(parts, result), runs.bits(c, whole));
  const auto stored = checkpoint::Reader(result.checkpoint).state().outlier_window;
  EXPECT_EQ(stored, checkpoint::Reader(whole.checkpoint).state().outlier_window);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->losses.size(), 7u);
}

TEST(OutlierSteps, FilesOfOtherRunsStayAsTheyWere) {
  SmallRun runs;
  auto c = varied(runs, "none", "none");
  c.steps = 8;
  const auto result = runs.run(c, {});
  const auto state = checkpoint::Reader(result.checkpoint).state();
  EXPECT_FALSE(state.outlier_window);
  EXPECT_FALSE(checkpoint::state_to_json(state).contains("outlier_window"));
  EXPECT_FALSE(state.identity.contains("skip_outliers"));
  for (const auto& line : runs.metrics(c)) EXPECT_FALSE(line.contains("outlier")) << line;
  auto high = varied(runs, "high", "norm:1000,loss:1000,window:3");  // a rule that finds nothing changes no bit
  high.steps = 8;
  EXPECT_EQ(runs.bits(high, runs.run(high, {})), runs.bits(c, result));
}

// The rule belongs to what a run is. A resume may change it if it says so, and an older checkpoint has none.
TEST(OutlierSteps, AResumeWithAnotherRuleSaysSo) {
  SmallRun runs;
  auto c = varied(runs, "run", "none");
  c.steps = 12;
  const auto part = [&](std::int64_t stop, const std::string& rule, const std::string& change) {
    c.stop_after = stop, c.skip_outliers = rule, c.change = change;
    return checkpoint::Reader(runs.run(c, {}).checkpoint).state();
  };
  part(3, "none", "");
  try {
    part(6, "norm:5,window:4", "");
    ADD_FAILURE() << "another rule is taken without a word";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::input_refused);
    EXPECT_NE(std::string(e.what()).find("--skip-outliers: the checkpoint has none, this run norm:5,window:4"),
              std::string::npos)
        << e.what();
    EXPECT_NE(e.hint().find("--change skip-outliers"), std::string::npos) << e.hint();
  }
  const auto begun = part(6, "norm:5,window:4", "skip-outliers");
  EXPECT_EQ(begun.outlier_window->losses.size(), 3u) << "the window of an older checkpoint is empty";
  EXPECT_EQ(begun.identity["skip_outliers"], "norm:5,window:4");
  EXPECT_EQ(part(8, "window:4,norm:5.0", "").outlier_window->losses.size(), 4u) << "the same rule in other words";
  EXPECT_THROW(part(9, "none", ""), base::Error) << "it is not forgotten, either";
  EXPECT_EQ(part(9, "loss:5,window:2", "skip-outliers").outlier_window->losses.size(), 2u);
  EXPECT_FALSE(part(12, "none", "skip-outliers").outlier_window);
}

// After step 5 every weight has moved by about 1, so that all later norms are far above.
TEST(OutlierSteps, ARunThatIsOnlyOutliersEnds) {
  SmallRun runs;
  for (const auto& layout : {ParallelLayout{}, {.ranks = 2, .zero = 2}}) {
    auto c = varied(runs, fmt::format("ends{}", layout.ranks), "norm:3,window:3");
    c.schedule = "constant", c.learning_rate = 1e-5, c.stop_after = 4, c.weight_decay = 0;
    runs.run(c, layout);
    c.learning_rate = 1, c.change = "learning-rate", c.stop_after = 0;
    try {
      runs.run(c, layout);
      ADD_FAILURE() << "the run ended without an error: " << outliers_of(runs.metrics(c));
    } catch (const base::Error& e) {
      const std::string text = e.what();
      EXPECT_EQ(e.code(), base::ExitCode::check_failed);
      EXPECT_EQ(text.find("step 8 is the last of 3 outliers in a row: gradient norm "), 0u) << text;
      EXPECT_NE(text.find(", 3 times the median "), std::string::npos) << text;
      EXPECT_NE(text.find(" of the last 3 steps that changed the weights"), std::string::npos) << text;
      EXPECT_NE(e.hint().find("the checkpoint of step 4 was read back"), std::string::npos) << e.hint();
      EXPECT_NE(e.hint().find("--skip-outliers (a resume needs --change skip-outliers)"), std::string::npos)
          << e.hint();
    }
    const auto lines = runs.metrics(c);
    EXPECT_EQ(outliers_of(lines), "- - - - - gradient_norm gradient_norm ");
    expect_judged(lines, 3, 0, 3);
  }
}

// An outlier is finite. So it counts as a step without an overflow, and an overflow is in no window.
TEST(OutlierSteps, ALossScaleFollowsOverflowsAlone) {
  SmallRun runs;
  auto c = varied(runs, "scaled", "norm:1.08,loss:1.01,window:7");
  c.loss_scale = "dynamic:1024,4,2";
  runs.run(c, {});
  auto lines = runs.metrics(c);
  EXPECT_GT(expect_judged(lines, 1.08, 1.01, 7), 2);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(lines[i]["loss_scale"].get<double>(), std::ldexp(1024, static_cast<int>(i / 4))) << i;
  std::string expected;
  for (const int ranks : {1, 2}) {
    auto f16 = varied(runs, fmt::format("f16-{}", ranks), "norm:1.1,loss:1.01,window:5");
    f16.loss_scale = "dynamic:4294967296,3,1";
    const auto result = runs.run(f16, {.ranks = ranks, .zero = ranks - 1, .dtype = "f16"});
    lines = runs.metrics(f16);
    const auto outliers = expect_judged(lines, 1.1, 1.01, 5);
    EXPECT_GT(outliers, 0) << outliers_of(lines);
    EXPECT_GT(lines.back()["skipped_steps"].get<int>(), outliers) << "this run is to overflow, too";
    const auto bits = outliers_of(lines) + runs.bits(f16, result);
    if (expected.empty()) expected = bits;
    EXPECT_EQ(bits, expected);
  }
}

}  // namespace outlier_steps_test
}  // namespace trainyard

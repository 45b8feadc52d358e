// The loss scale: its text, how it follows overflows, and runs that differ in it alone.
#include "libtrain/engine/loss_scale.h"

#include "libtrain/base/error.h"
#include "libtrain/engine/restore.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trainyard {
namespace loss_scale_test {

using engine::LossScale;
using engine::LossScaleRule;
using testing::ParallelLayout;
using testing::SmallRun;

LossScaleRule rule_of(const std::string& text) { return engine::loss_scale_rule(text, base::DType::f32); }

TEST(LossScale, ReadsItsRules) {
  using Kind = LossScaleRule::Kind;
  EXPECT_EQ(rule_of("none").kind, Kind::none);
  EXPECT_EQ(rule_of("auto").kind, Kind::none);
  EXPECT_EQ(engine::loss_scale_rule("auto", base::DType::bf16).kind, Kind::none);
  EXPECT_EQ(engine::text_of(engine::loss_scale_rule("auto", base::DType::f16)), "dynamic:65536,2000,2");
  EXPECT_EQ(engine::text_of(rule_of("static:4096")), "static:4096");
  EXPECT_EQ(engine::text_of(rule_of("static:1")), "static:1");
  EXPECT_EQ(engine::text_of(rule_of("dynamic")), "dynamic:65536,2000,2");
  EXPECT_EQ(engine::text_of(rule_of("dynamic:4294967296")), "dynamic:4294967296,2000,2");
  EXPECT_EQ(engine::text_of(rule_of("dynamic:8, 100")), "dynamic:8,100,2");
  EXPECT_EQ(engine::text_of(rule_of("dynamic:8,100,1")), "dynamic:8,100,1");
  EXPECT_EQ(engine::text_of(rule_of("none")), "none");
}

TEST(LossScale, RefusesOtherTexts) {
  for (const char* text : {"",
                           "on",
                           "1024",
                           "static",
                           "static:",
                           "static:3",
                           "static:0",
                           "static:-2",
                           "static:0.5",
                           "static:1,2",
                           "static:8589934592",
                           "static:1e3",
                           "static:99999999999999999999",
                           "dynamic:",
                           "dynamic:5",
                           "dynamic:4,0",
                           "dynamic:4,2,0",
                           "dynamic:4,2,-1",
                           "dynamic:4,2,1,1",
                           "dynamic:4,x",
                           "dynamic:4,,2",
                           "Dynamic",
                           "none:4"})
    try {
      rule_of(text);
      ADD_FAILURE() << "'" << text << "' is accepted";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::usage) << text;
      EXPECT_NE(std::string(e.what()).find("loss-scale"), std::string::npos) << e.what();
    }
}

// Steps without an overflow are '.', steps with one 'x'. The scales that Megatron-LM and DeepSpeed have after each step
// of this trace, with a window of 4 and a hysteresis of 2.
TEST(LossScale, FollowsOverflows) {
  LossScale scale(rule_of("dynamic:65536,4,2"));
  std::vector<double> seen;
  for (const char step : std::string("..x.xx....x.........")) {
    if (step == '.') scale.count_step();
    else EXPECT_TRUE(scale.count_overflow());
    seen.push_back(scale.scale());
  }
  std::vector<double> expected;
  for (const auto& [times, value] :
       std::vector<std::pair<int, double>>{{4, 65536}, {1, 32768}, {4, 16384}, {5, 32768}, {4, 65536}, {2, 131072}})
    expected.insert(expected.end(), static_cast<std::size_t>(times), value);
  EXPECT_EQ(seen, expected);
}

TEST(LossScale, EndsWhereNoSmallerScaleIsLeft) {
  LossScale dynamic(rule_of("dynamic:4,10,2"));
  int overflows = 1;
  while (dynamic.count_overflow()) ++overflows;
  EXPECT_EQ(overflows, 4) << "one for the hysteresis, one each for 4 and 2, and one at 1";
  EXPECT_EQ(dynamic.scale(), 1);
  LossScale fixed(rule_of("static:8"));
  for (int i = 1; i < LossScale::most_skips_in_a_row; ++i) ASSERT_TRUE(fixed.count_overflow()) << i;
  EXPECT_FALSE(fixed.count_overflow());
  EXPECT_EQ(fixed.scale(), 8);
  fixed.count_step();
  EXPECT_TRUE(fixed.count_overflow()) << "a step that counts begins anew";
  LossScale most(rule_of("dynamic:4294967296,1,1"));
  most.count_step();
  EXPECT_EQ(most.scale(), engine::most_loss_scale);
}

TEST(LossScale, DividesByTheTokensOfAStepAsAPowerOfTwo) {
  const LossScale scale(rule_of("static:1024"));
  EXPECT_EQ(scale.token_factor(1), 1024);
  EXPECT_EQ(scale.token_factor(512), 2);
  EXPECT_EQ(scale.token_factor(513), 1);
  EXPECT_EQ(scale.token_factor(4096), 0.25);
  EXPECT_EQ(LossScale().token_factor(512), 1);
}

TEST(LossScale, GoesOnFromWhatIsStored) {
  LossScale before(rule_of("dynamic:256,10,3"));
  before.count_step(), before.count_overflow(), before.count_step(), before.count_step();
  ASSERT_TRUE(before.stored());
  EXPECT_EQ(*before.stored(), (checkpoint::StoredLossScale{256, 2, 2, 0}));
  LossScale after(rule_of("dynamic:64,10,3"));
  after.go_on_from(before.stored());
  EXPECT_EQ(after.stored(), before.stored());
  LossScale shorter(rule_of("dynamic:64,2,1"));  // another rule, which a resume may have
  shorter.go_on_from(before.stored());
  EXPECT_EQ(*shorter.stored(), (checkpoint::StoredLossScale{256, 1, 1, 0}));
  LossScale fixed(rule_of("static:16"));
  fixed.go_on_from(before.stored());
  EXPECT_EQ(fixed.scale(), 16);
  EXPECT_FALSE(LossScale().stored());
  after.go_on_from({});
  EXPECT_EQ(*after.stored(), (checkpoint::StoredLossScale{64, 0, 3, 0}));
}

engine::RunConfig small(const SmallRun& runs, const std::string& output, const std::string& scale) {
  auto c = runs.config(output);
  c.steps = 4, c.global_batch = 4, c.threads = 1, c.loss_scale = scale;
  return c;
}

// Powers of two change no digit of f32 and bf16, so that the scale must cancel exactly, on every kind of layout.
TEST(LossScale, NoBitOfARunDependsOnIt) {
  SmallRun runs;
  const auto experts =
      runs.model("experts",
                 "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n[experts]\n"
                 "count = 4\nbalance-loss = 0.1\nz-loss = 0.01\n");
  int number = 0;
  const auto bits = [&](const std::string& scale, const std::string& model, const ParallelLayout& layout) {
    auto c = small(runs, fmt::format("run{}", number++), scale);
    c.model = model;
    return runs.bits(c, runs.run(c, layout));
  };
  for (const auto& model : {runs.gpt(), experts})
    for (const char* dtype : {"f32", "bf16"}) {
      SCOPED_TRACE(model + " " + dtype);
      const auto expected = bits("none", model, {.dtype = dtype});
      EXPECT_EQ(bits("static:1024", model, {.dtype = dtype}), expected);
      EXPECT_EQ(bits("dynamic:65536,1,1", model, {.ranks = 2, .zero = 2, .dtype = dtype}), expected);
    }
  const auto expected = bits("none", runs.gpt(), {.ranks = 2, .tensor = 2});
  EXPECT_EQ(bits("static:32768", runs.gpt(), {.ranks = 2, .tensor = 2}), expected);
  EXPECT_EQ(bits("static:2", runs.gpt(), {.ranks = 2, .pipeline = 2}), bits("none", runs.gpt(), {}));
}

TEST(LossScale, ARunRecordsAndKeepsIt) {
  SmallRun runs;
  auto c = small(runs, "kept", "dynamic:1024,3,2");
  const auto whole = runs.run(c, {});
  std::vector<std::int64_t> scales;
  for (const auto& line : runs.metrics(c)) scales.push_back(line["loss_scale"]);
  EXPECT_EQ(scales, (std::vector<std::int64_t>{1024, 1024, 1024, 2048}));
  EXPECT_EQ(*checkpoint::Reader(whole.checkpoint).state().loss_scale, (checkpoint::StoredLossScale{2048, 1, 2, 0}));
  auto parts = small(runs, "parts", "dynamic:1024,3,2");
  parts.stop_after = 2;
  runs.run(parts, {});
  parts.stop_after = 0;
  const auto second = runs.run(parts, {.ranks = 2});
  EXPECT_EQ(runs.bits(parts, second), runs.bits(c, whole));
  EXPECT_EQ(checkpoint::Reader(second.checkpoint).state().loss_scale,
            checkpoint::Reader(whole.checkpoint).state().loss_scale);
  const auto none = small(runs, "none", "none");
  EXPECT_FALSE(checkpoint::Reader(runs.run(none, {}).checkpoint).state().loss_scale);
  EXPECT_FALSE(runs.metrics(none)[0].contains("loss_scale"));
  // A resume may take another rule, or none.
  for (const char* other : {"none", "static:8"}) {
    auto more = c;
    more.steps = 5, more.change = "steps", more.loss_scale = other;
    more.resume = whole.checkpoint, more.output = (runs.folder() / (std::string("more-") + other)).string();
    EXPECT_EQ(runs.run(more, {}).step, 5) << other;
  }
}

// The first scales are too large for f16. Each layout finds that in the same steps, and goes on with the same bits.
TEST(LossScale, EveryLayoutSkipsTheSameStepsOfAnF16Run) {
  SmallRun runs;
  std::string expected;
  std::int64_t number = 0;
  for (const auto& layout : {ParallelLayout{.dtype = "f16"},
                             {.ranks = 2, .zero = 1, .dtype = "f16"},
                             {.ranks = 3, .zero = 3, .threads = 2, .dtype = "f16", .recompute = "full"},
                             {.ranks = 2, .dtype = "f16", .tensor = 2},
                             {.ranks = 2, .zero = 2, .dtype = "f16", .pipeline = 2}}) {
    auto c = runs.config(fmt::format("layout{}", number++));
    c.loss_scale = "dynamic:4294967296,4,1", c.steps = 24;
    const auto result = runs.run(c, layout);
    const auto lines = runs.metrics(c);
    std::string skips;
    for (std::size_t i = 0; i < lines.size(); ++i)
      skips += fmt::format("{} {}\n", lines[i].value("skipped_steps", 0), lines[i]["loss_scale"].dump());
    const auto bits = skips + runs.bits(c, result);
    if (expected.empty()) {
      expected = bits;
      const auto skipped = lines.back()["skipped_steps"].get<int>();
      EXPECT_GT(skipped, 4) << "this run is to overflow";
      EXPECT_LT(skipped, 20) << "and to learn";
      EXPECT_LT(lines.back()["loss"].get<double>(), lines.front()["loss"].get<double>());
    }
    EXPECT_EQ(bits, expected) << "layout " << number;
  }
}

// A resume may have another dtype: the scale begins where f16 begins, and is gone where it ends.
TEST(LossScale, ARunGoesOnInAnotherDtype) {
  SmallRun runs;
  auto c = runs.config("dtypes");
  c.steps = 12;
  for (const auto& [stop, dtype] : {std::pair{3, "f32"}, {6, "f16"}, {9, "bf16"}, {12, "f16"}}) {
    c.stop_after = stop;
    const auto result = runs.run(c, {.ranks = 2, .zero = 1, .dtype = dtype});
    EXPECT_EQ(result.step, stop);
    const auto state = checkpoint::Reader(result.checkpoint).state();
    EXPECT_EQ(state.loss_scale.has_value(), std::string(dtype) == "f16") << dtype;
    EXPECT_EQ(base::name_of(state.dtype), std::string(dtype));
    EXPECT_EQ(state.skipped_steps, 0);
  }
  const auto lines = runs.metrics(c);
  ASSERT_EQ(lines.size(), 12u);
  for (std::size_t i = 1; i < lines.size(); ++i)
    EXPECT_NEAR(lines[i]["loss"].get<double>(), lines[i - 1]["loss"].get<double>(), 1.5) << i;
}

// After the first step every weight is 1e30, so that no scale can help.
TEST(LossScale, ARunOfNothingButSkipsEndsWithADiagnosis) {
  SmallRun runs;
  for (const auto& [scale, words] :
       {std::pair{"dynamic:4,100,2", "step 5 is not finite: loss "}, {"static:4", "step 51 is not finite: loss "}}) {
    auto c = small(runs, std::string("skips-") + (scale[0] == 's' ? "static" : "dynamic"), scale);
    c.model = runs.model("tiny", "layers = 1\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 32\ncontext = 16\n");
    c.learning_rate = 1e30, c.steps = 80;
    try {
      runs.run(c, {.ranks = 2});
      ADD_FAILURE() << "the run ended without an error";
    } catch (const base::Error& e) {
      const std::string text = e.what();
      EXPECT_EQ(e.code(), base::ExitCode::check_failed);
      EXPECT_EQ(text.find(words), 0u) << text;
      EXPECT_NE(text.find(scale[0] == 's' ? "loss scale 4, after 49 steps in a row that were skipped; micro-batch 0"
                                          : "loss scale 1, after 3 steps in a row that were skipped; micro-batch 0"),
                std::string::npos)
          << text;
    }
    const auto lines = runs.metrics(c);
    EXPECT_EQ(lines.size(), scale[0] == 's' ? 50u : 4u);
    EXPECT_EQ(lines.back()["skipped_steps"], lines.size() - 1);
    EXPECT_EQ(lines.back()["learning_rate"], lines[1]["learning_rate"]) << "a skipped step does not advance the rate";
  }
}

}  // namespace loss_scale_test
}  // namespace trainyard
